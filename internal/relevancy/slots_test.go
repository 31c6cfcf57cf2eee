package relevancy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRoundDoesAllInItsPeriod: however long the Flushes are apart, and never more at once than they owe.
func TestRoundDoesAllInItsPeriod(t *testing.T) {
	const period = 100 * time.Millisecond
	for _, n := range []int{1, 7, 100, 10_000} {
		for _, step := range []time.Duration{time.Microsecond * 777, 16 * time.Millisecond, 33 * time.Millisecond, 90 * time.Millisecond} {
			var s Round
			done, most := 0, 0
			for passed := time.Duration(0); passed < 10*period; passed += step {
				due := s.Take(n, step, period)
				done += due
				most = max(most, due)
			}
			require.InDelta(t, 10*n, done, float64(n)*float64(step)/float64(period)+1, "%d, every %v", n, step)
			require.LessOrEqual(t, most, int(float64(n)*float64(step)/float64(period))+1)
			require.Equal(t, n, s.Take(n, time.Hour, period), "not more than a round")
		}
	}
	var s Round
	require.Zero(t, s.Take(5, 0, period))
	require.Zero(t, s.Take(0, time.Hour, period))
}

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
