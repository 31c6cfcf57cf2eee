package parity

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCountIsInProportion: more loss needs more parity; what has arrived needs none.
func TestCountIsInProportion(t *testing.T) {
	require.Zero(t, Count(28, 0.00001))
	before := 0
	for _, loss := range []float64{0.001, 0.01, 0.02, 0.05, 0.1} {
		n := Count(28, loss)
		t.Logf("%d parity shards for 28 at a loss of %v", n, loss)
		require.Greater(t, n, before)
		before = n
	}
	require.Equal(t, Most, Count(28, 0.5))
	require.Zero(t, Count(0, 0.1))
}

// TestLossIsCautious expects somewhat more loss than was measured. If nothing was lost, it expects
// less the more packets there were, and after some hundred it makes no parity.
func TestLossIsCautious(t *testing.T) {
	for _, row := range []struct {
		share   float64
		packets int
		want    float64
	}{{0, 0, 0.034}, {0, 16, 0.017}, {0, 256, 0.002}, {1. / 16, 16, 0.069}, {0.1, 64, 0.113}, {0.1, 256, 0.113}} {
		require.InDelta(t, row.want, Loss(row.share, row.packets), 0.001, row)
	}
}
