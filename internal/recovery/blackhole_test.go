package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBlackHole(t *testing.T) {
	const large, small = true, false
	var hole BlackHole
	hole.Acked(1, small)
	for n := uint64(2); n < 5; n++ {
		require.False(t, hole.Detect(6))
		hole.Lost(n, large)
	}
	require.False(t, hole.Detect(6), "no small one after them arrived")
	hole.Acked(5, small)
	require.True(t, hole.Detect(6))
	require.False(t, hole.Detect(6), "once")

	t.Log("# a large one that arrives starts anew; small ones that are lost say nothing")
	hole.Lost(6, large)
	hole.Lost(7, large)
	hole.Acked(8, large)
	hole.Lost(9, large)
	hole.Lost(10, small)
	hole.Acked(11, small)
	require.False(t, hole.Detect(6))

	t.Log("# a full queue drops many in a row, but a large one sent after them arrives")
	hole.Acked(20, large)
	for n := uint64(12); n < 20; n++ {
		hole.Lost(n, large)
	}
	hole.Acked(21, small)
	require.False(t, hole.Detect(6))
}
