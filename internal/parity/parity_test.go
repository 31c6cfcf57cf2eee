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

// TestLossBelievesFewPacketsLittle: at first two in a hundred are expected to
// be lost, later what was measured.
func TestLossBelievesFewPacketsLittle(t *testing.T) {
	var l Loss
	require.Equal(t, priorLoss, l.Estimate(0))
	for range 10 * priorMemory {
		l.Note()
	}
	require.InDelta(t, 0.004, l.Estimate(0), 0.0005)
	require.InDelta(t, 0.1, l.Estimate(0.12), 0.002)
}
