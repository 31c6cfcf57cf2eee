package pace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStartersShareWhatATrainPromised: sixteen of one server that each began as
// if alone lost half of the first second's packets.
func TestStartersShareWhatATrainPromised(t *testing.T) {
	alone, one := newFlier(1400, 8e6, 1<<20), newFlier(1400, 8e6, 1<<20)
	one.Starters(8, 0)
	require.InDelta(t, alone.Window()/8, one.Window(), 1)
	require.InEpsilon(t, alone.Rate()/8, one.Rate(), 1e-6)

	one.Starters(2, 1400)
	require.InDelta(t, alone.Window()/8, one.Window(), 1, "the six others have what they found")
	one.Starters(2, 0)
	require.InDelta(t, alone.Window()/2, one.Window(), 1, "they are done: nothing of this one is in flight")
	one.Starters(1000, 1400)
	require.Equal(t, (trainPackets+2)*one.cfg.Packet, one.Window(), "no less than shows a rate")
}

// TestStartersShareAnUnevenTrain: jitter makes any rate of a train, and the
// path's is at least that. Starters share it too.
func TestStartersShareAnUnevenTrain(t *testing.T) {
	c := New(Config{})
	c.Guess(50 * ms)
	c.TrainMeasured(Train{Bytes: 16 * 1400, Span: 2 * ms})
	c.Waiting(1 << 20)
	c.rounds = 1 // of few packets, in which no rate was measured
	alone, rate := c.Window(), c.Rate()
	c.Starters(8, 0)
	require.LessOrEqual(t, c.Window(), alone/8)
	require.LessOrEqual(t, c.Rate(), rate/8)
}

// TestStartersOfUnknownPaths begin with no less than RFC 9002's initial window.
func TestStartersOfUnknownPaths(t *testing.T) {
	c := New(Config{})
	require.Equal(t, 32*1500, c.Window())
	c.Starters(2, 0)
	require.Equal(t, 16*1500, c.Window())
	c.Starters(200, 0)
	require.Equal(t, 10*1500, c.Window())
}

// TestAStartersFlightIsGrownFrom: what its part of the train's rate leaves of
// the path a starter finds by doubling it. That the first packets of the flight
// were sent before the others began shows nothing.
func TestAStartersFlightIsGrownFrom(t *testing.T) {
	f := newFlier(1400, 12.5e6, 1<<20)
	f.Starters(8, 0)
	f.arrive(f.first(), 50*ms) // as fast as the whole path
	require.False(t, f.start.careful)
	require.Equal(t, Start, f.State())
	require.InEpsilon(t, 12.5e6/8, f.Estimate(), 0.01)
	require.InEpsilon(t, startGain*12.5e6/8, f.Rate(), 0.01)
}

// TestAHintIsNoRateBeforeAQueue: a controller that begins on a full path, of which
// its train knew nothing, competes for what arrived of its first flight. A hint
// that remained beside the queue made it send the whole path's rate a second later.
func TestAHintIsNoRateBeforeAQueue(t *testing.T) {
	f := newFlier(1400, 12.5e6, 1<<20)
	f.queueing.rateBefore = f.Estimate() // of the round in which the queue was met
	f.confirm(0, slope{sent: 12.5e6, arrival: 1e6, grown: 40 * ms, took: 40 * ms, bytes: 20 * 1400})
	require.LessOrEqual(t, f.queueing.rateBefore, 1e6)
	f.compete(0)
	require.LessOrEqual(t, f.Rate(), 2e6)
}

// TestTrainsAheadAreACrowd: trains of others that ours has waited for show that
// many begin, whose owners know nothing of each other. Sixteen over 20 Mbit/s lost
// 19 % of all packets, because each of them began with half of the path's product.
func TestTrainsAheadAreACrowd(t *testing.T) {
	const product = 400_000
	train := func(trip time.Duration, even bool) flier {
		f := newFlier(1400, product*20, 5*product)
		f.TrainMeasured(Train{Bytes: 16 * f.size, Span: 16 * f.each, Trip: trip, Even: even})
		return f
	}
	window := func(trip time.Duration) int { return train(trip, true).Window() }
	alone, span := window(0), 16*train(0, true).each
	require.InEpsilon(t, (1-5*startCost)*product, alone, 0.01)
	require.Equal(t, alone, window(50*ms))
	require.Equal(t, alone, window(50*ms+minAhead), "the hosts' own delays")
	require.Equal(t, alone, window(40*ms), "the guess was too long")
	require.InEpsilon(t, (1-3*5*startCost)*product, window(50*ms+span), 0.01, "one was ahead, and one follows")
	require.InEpsilon(t, minFlightPart*product, window(time.Minute), 0.01)
	require.Equal(t, train(0, false).Window(), train(50*ms+span, false).Window(), "jitter")

	f := train(50*ms+span, true)
	f.Starters(4, 0)
	require.InDelta(t, alone/4, f.Window(), 1, "the owner knows of them")
}
