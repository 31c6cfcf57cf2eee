package pace

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBrake(t *testing.T) {
	var b brake
	rounds := func(n int, round tally) (pulls int) {
		for range n {
			if halve, _ := b.roundOver(round, 0); halve {
				pulls++
			}
		}
		return pulls
	}
	require.Zero(t, rounds(30, tally{lost: 10, acked: 90}), "10 % may be random")
	require.Equal(t, 10, rounds(30, tally{lost: 40, acked: 60}), "each three rounds")
	require.Zero(t, rounds(1, tally{lost: 100}), "a burst is none yet")
	require.Zero(t, rounds(2, tally{acked: 400}))
	require.Zero(t, rounds(3, tally{lost: 1, acked: 2}), "few packets may all be unlucky")

	t.Logf("# a run is one event, but not for ever")
	require.Zero(t, rounds(1, tally{lost: 600, consecutive: 599}))
	require.Zero(t, rounds(2, tally{acked: 600}))
	require.Positive(t, rounds(12, tally{lost: 600, consecutive: 599, acked: 40}))
}

// TestBrakeKnowsTheBestRound: if the path was dark, or the sender waited for a
// queue to drain, next to nothing arrived in the last round. By that alone a
// rate of 4 MB/s became four packets a round trip.
func TestBrakeKnowsTheBestRound(t *testing.T) {
	var b brake
	lossy := tally{lost: 40, acked: 60}
	b.roundOver(lossy, 5000)
	b.roundOver(lossy, 400_000)
	halve, most := b.roundOver(lossy, 3000)
	require.True(t, halve)
	require.Equal(t, 400_000, most)
	b.roundOver(lossy, 1000)
	b.roundOver(lossy, 1000)
	_, most = b.roundOver(lossy, 1000)
	require.Equal(t, 1000, most, "of its own rounds")
}

// A controller that believes its path to be ten times as fast as it is comes
// down to the path's rate within some rounds, whatever else it has learned,
// including a baseline of random loss at its cap.
func TestBrakeStopsAFool(t *testing.T) {
	const path, packet = 1e6, 1000 // bytes a second
	c := New(Config{Packet: packet})
	c.delay.trip(1, 50*ms)
	c.rates.set(0, 10*path)
	c.congestion.baseline = share{value: maxRandomLoss, count: lossMemory}
	c.enter(Cruise, 1)
	round := 0
	for ; c.Estimate() > 2*path; round++ {
		require.Less(t, round, 4*brakeRounds)
		passes := min(path/c.Estimate(), 1)
		c.round.fates = tally{lost: int(500 * (1 - passes)), acked: int(500 * passes)}
		c.congestion.roomSeen = instant(round) * 50 * ms
		c.endRound(instant(round) * 50 * ms)
	}
	require.Zero(t, c.usual(), "what was believed of random loss is forgotten")
}

// loses declares packets with these numbers lost in this round.
func (c *Controller) loses(numbers ...uint16) {
	for _, n := range numbers {
		c.round.fates.addLost(false)
		c.round.losses().add(n)
	}
}

// Packets that were only late restore what their losses took.
func TestUndo(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.queueing.rateBefore = 1e6
	c.compete(10 * ms)
	window := c.Window()
	c.loses(60, 61)
	c.cutWindow(100 * ms)
	require.Less(t, c.Window(), window)
	c.Spurious(Sample{sent: 60 * ms, number: 60})
	require.Less(t, c.Window(), window, "one of two")
	c.Spurious(Sample{sent: 120 * ms, number: 120})
	require.Less(t, c.Window(), window, "it left after the reaction")
	c.Spurious(Sample{sent: 50 * ms, number: 50})
	require.Less(t, c.Window(), window, "it was lost before, and has caused nothing")
	c.Spurious(Sample{sent: 61 * ms, number: 61})
	require.Equal(t, window, c.Window())

	t.Logf("# a rate comes back, too")
	c.rates.set(0, 2e6)
	c.enter(Cruise, 200*ms)
	for i := range 50 {
		c.delivery.arrive(Sample{sent: instant(i) * ms}, 1000, instant(200+i)*ms)
	}
	c.recent, c.round.fates, *c.round.losses() = 1e6, tally{}, losses{}
	c.loses(250)
	c.answerLoss(300 * ms)
	require.EqualValues(t, 1e6, c.Estimate())
	c.Spurious(Sample{sent: 250 * ms, number: 250})
	require.EqualValues(t, 2e6, c.Estimate())

	t.Logf("# and the state: nobody else is there, and a start has not found the rate")
	c.loses(350)
	c.answerLoss(400 * ms)
	require.Equal(t, Compete, c.State())
	c.Spurious(Sample{sent: 350 * ms, number: 350})
	require.Equal(t, Cruise, c.State())
	c.enter(Start, 500*ms)
	c.loses(550)
	c.endByLoss(600 * ms)
	require.Equal(t, Drain, c.State())
	require.Less(t, c.Estimate(), 2e6)
	c.Spurious(Sample{sent: 550 * ms, number: 550})
	require.Equal(t, Start, c.State())
	require.EqualValues(t, 2e6, c.Estimate())

	t.Logf("# and so does a hint")
	c = New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.start.hint, c.delivery.total = 2e6, 100_000
	c.loses(60)
	c.halveAll(100*ms, 100_000)
	require.EqualValues(t, 1e6, c.Estimate())
	c.Spurious(Sample{sent: 60 * ms, number: 60})
	require.EqualValues(t, 2e6, c.Estimate())

	t.Logf("# but no more of it than what has come may prove")
	c = New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.start.hint, c.delivery.total = 200e6, 10_000
	c.loses(60)
	c.endByLoss(100 * ms)
	c.Spurious(Sample{sent: 60 * ms, number: 60})
	require.Equal(t, Start, c.State())
	require.EqualValues(t, maxGrowth*10_000*20, c.Estimate())
}

// A second reaction within a round trip belongs to the first: what they took is
// restored if all of their losses were spurious.
func TestUndoOfTwo(t *testing.T) {
	c := New(Config{Packet: 1000})
	c.delay.trip(1, 50*ms)
	c.queueing.rateBefore = 1e6
	c.compete(10 * ms)
	window := c.Window()
	c.loses(60)
	c.cutWindow(100 * ms)
	for _, n := range []uint16{101, 102} {
		c.Lost(c.local.time(110*ms), Sample{sent: instant(n) * ms, number: n}, 1000)
	}
	c.cutWindow(120 * ms)
	half := c.Window()
	c.Spurious(Sample{sent: 60 * ms, number: 60})
	c.Spurious(Sample{sent: 101 * ms, number: 101})
	require.Equal(t, half, c.Window(), "one was lost")
	c.Spurious(Sample{sent: 102 * ms, number: 102})
	require.Equal(t, window, c.Window())
}

// A silence forgives losses, and a peer may be silent on purpose: afterwards at
// most twice the rate of what arrived in a round trip is believed.
func TestSilenceForgivesNoRate(t *testing.T) {
	for _, before := range []instant{20 * ms, 60 * ms} { // when the packet left that ends the silence: before it, or in it
		c := New(Config{Packet: 1000})
		c.delay.trip(1, 50*ms)
		c.rates.set(0, 10e6)
		c.carried.set(0, 1e6)
		c.enter(Dark, 50*ms)
		c.wake(500*ms, Sample{sent: before})
		require.EqualValues(t, 2e6, c.Estimate())
	}
}
