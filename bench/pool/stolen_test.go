package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStolen(t *testing.T) {
	before := parseCores("cpu  10 1 2 80 1 1 1 4 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	require.Equal(t, cores{all: 100, stolen: 4}, before)
	share, ok := parseCores("cpu  60 1 2 110 1 1 1 24 9 9\n").stolenSince(before)
	require.True(t, ok)
	require.InDelta(t, 0.2, share, 1e-9)
	_, ok = before.stolenSince(before)
	require.False(t, ok, "no time has passed")
	_, ok = cores{all: 200, stolen: 3}.stolenSince(before)
	require.False(t, ok, "time that is given back")

	for _, text := range []string{"", "cpu 1 2 3", "cpu  a 1 2 80 1 1 1 4 7 7", "intr 1 2 3 4 5 6 7 8 9 10"} {
		require.Zero(t, parseCores(text))
		_, ok = before.stolenSince(parseCores(text))
		require.False(t, ok, "another system")
	}
}
