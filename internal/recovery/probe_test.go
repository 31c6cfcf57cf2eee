package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProbe(t *testing.T) {
	var p probe
	for range probeRounds - 1 {
		p.endRound(100, false)
		require.False(t, p.on)
	}
	t.Log("# a probe takes two rounds, and another follows if the rate has grown")
	for _, rate := range []float64{100, 100, 120, 120, 122} {
		p.endRound(rate, false)
		require.Equal(t, rate < 122, p.on)
	}
	t.Log("# a queue ends it")
	p = probe{on: true, before: 100}
	p.endRound(200, true)
	require.False(t, p.on)
}
