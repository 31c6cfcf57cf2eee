package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fitted returns a controller over a path of 1 MB/s and 100 ms whose queue of
// 20 ms has dropped packets of a look.
func fitted() *Controller {
	c := New(Config{Packet: 1000})
	c.now = 2
	c.delay.trip(1, 100*ms)
	c.delay.noteDepth(1, 20*ms)
	c.rates.set(0, 1e6)
	c.fastest = 1e6
	c.openLook(2)
	c.look.peak, c.look.outcome = 15*ms, tally{lost: 20, acked: 80}
	c.closeLook()
	return c
}

// TestLooksFitAShortQueue: a controller that had most of a path with a short queue
// caused everybody's packets to be dropped with each look, and kept its part.
func TestLooksFitAShortQueue(t *testing.T) {
	push := func(c *Controller, at instant) float64 {
		c.openLook(at)
		return c.push()
	}
	c := fitted()
	require.InDelta(t, 1.1, push(c, 3), 1e-9, "half of the queue")
	c.delay.noteDepth(3, 5*ms)
	require.InDelta(t, 1+minFit, push(c, 3), 1e-9, "what can be told from noise")
	c.delay.noteDepth(3, 20*ms)
	c.rates.set(0, 0.25e6)
	require.InDelta(t, lookGain, push(c, 3), 1e-9, "a quarter of the path may add as much")

	found := func(c *Controller) {
		c.rates.set(0, 1e6)
		push(c, 3)
		c.look.outcome.acked = minLookPackets
		c.rates.set(0, 1.1e6)
		require.True(t, c.judgeLook(4))
	}
	c = fitted()
	c.competition.seen = 2
	found(c)
	c.rates.set(0, 1e6)
	require.InDelta(t, 1.1, push(c, 5), 1e-9, "there was room, but somebody else is there")
	c = fitted()
	found(c)
	c.rates.set(0, 1e6)
	require.InDelta(t, 1.2, push(c, 5), 1e-9, "there was room")
	require.InDelta(t, lookGain, push(c, c.looks.fitting.dropped+minimumLife+1), 1e-9, "long ago")
	c.delay.noteDepth(5, time.Second)
	require.InDelta(t, lookGain, push(c, 5), 1e-9, "a deep queue")
}

// TestLossesOfFittingLooks: a look that fits the queue causes no losses, so
// losses meanwhile are caused by others.
func TestLossesOfFittingLooks(t *testing.T) {
	c := fitted()
	drops := func(at instant) bool { return c.look.causesDrops(c.competition.lately(at)) }
	require.False(t, drops(3), "no look is open")
	c.competition.seen = 2
	c.openLook(3)
	require.True(t, drops(3), "it adds the least, which may be too much")
	c.competition.seen = 0
	c.rates.set(0, 0.5e6)
	c.openLook(3)
	require.True(t, drops(3), "nobody else is known")
	c.competition.seen = 2
	require.False(t, drops(3))
	require.True(t, drops(3+minimumLife))
	c.looks.fitting.times = 2
	c.openLook(3)
	require.True(t, drops(3), "it may be too large")
}
