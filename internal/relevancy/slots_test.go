package relevancy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSlotsStay: what is added takes a place that is free, and no other moves.
func TestSlotsStay(t *testing.T) {
	var s Slots[int, string]
	items := []int{0, 1, 2, 3}
	for i := range items[:3] {
		require.Equal(t, i, s.Add(&items[i]))
	}
	s.Remove(1)
	require.Nil(t, s.Items[1])
	require.Equal(t, 1, s.Add(&items[3]))
	require.Equal(t, []*int{&items[0], &items[3], &items[2]}, s.Items)
	require.Len(t, s.Here, 3)
}
