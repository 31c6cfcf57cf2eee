package statnet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSampler(t *testing.T) {
	start := time.Unix(1000, 0)
	var s Sampler
	s.Start(start)
	after := func(d time.Duration, in, out uint64) Sample[float64] {
		return s.Of(start.Add(d), Sample[uint64]{BytesIn: in, BytesOut: out})
	}
	require.Zero(t, after(0, 0, 0))
	require.InDelta(t, 200, after(time.Second/2, 100, 0).BytesIn, 1e-9, "since the start")
	two := after(2*time.Second, 1000, 10)
	require.InDelta(t, 500, two.BytesIn, 1e-9)
	require.InDelta(t, 5, two.BytesOut, 1e-9)
	require.InDelta(t, 500, after(2500*time.Millisecond, 9000, 10).BytesIn, 1e-9, "of the last whole window")
	require.InDelta(t, 8000, after(3*time.Second, 9000, 10).BytesIn, 1e-9)
	require.Zero(t, after(4*time.Second, 8000, 10).BytesIn, "a packet that never left was taken back")
	require.Zero(t, testing.AllocsPerRun(10, func() { after(5*time.Second, 1, 1) }))
}
