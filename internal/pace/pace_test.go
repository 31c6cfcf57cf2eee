package pace_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/testkit"
)

// steps drives a controller by hand.
type steps struct {
	*testing.T
	*pace.Controller
	now      time.Time
	inFlight int
}

const packet = 1000

func newSteps(t *testing.T) *steps {
	return &steps{T: t, Controller: pace.New(pace.Config{Packet: packet}), now: netsim.Epoch}
}

func (s *steps) pass(d time.Duration) { s.now = s.now.Add(d) }

// rate checks the pace in bytes a second.
func (s *steps) rate(want float64) {
	s.Helper()
	require.InEpsilon(s, want, s.Rate(), 1e-6)
}

// send sends packets as the pace allows it, and returns their samples.
func (s *steps) send(n int) []pace.Sample {
	samples := make([]pace.Sample, n)
	for i := range samples {
		at, ok := s.Next(s.now, packet, s.inFlight)
		require.True(s, ok)
		if at.After(s.now) {
			s.now = at
		}
		samples[i] = s.Sent(s.now, packet, s.inFlight)
		s.inFlight += packet
	}
	return samples
}

// ack reports that a packet has arrived so long ago.
func (s *steps) ack(p pace.Sample, ago time.Duration) {
	s.inFlight -= packet
	s.Acked(s.now, p, packet, s.now.Add(-ago))
	s.Feedback(s.now, s.inFlight)
}

func TestNothingKnown(t *testing.T) {
	s := newSteps(t)
	t.Logf("# 32 packets in 100 ms, and at once")
	s.rate(320e3)
	require.Equal(t, 32*packet, s.Window())
	at, ok := s.Next(s.now, packet, 0)
	require.True(t, ok)
	require.False(t, at.After(s.now))
	require.Zero(t, s.Loss())
	require.Zero(t, s.Queue())
	require.Equal(t, pace.Start, s.State())

	t.Logf("# other packets tell the round trip: 32 packets in that")
	s.Guess(50 * ms)
	s.rate(640e3)

	t.Logf("# a train is better: once its rate")
	s.TrainMeasured(pace.Train{Bytes: 15 * packet, Span: 15 * ms, Even: true})
	s.rate(1e6)
	require.Equal(t, 50*packet, s.Window())

	t.Logf("# one of many that will be sent tells in a part of that flight, the less the longer all takes")
	s.Waiting(500 * packet)
	require.Equal(t, 35*packet, s.Window())
	s.Waiting(5000 * packet)
	require.Equal(t, 18*packet, s.Window())
	s.Waiting(0)

	t.Logf("# a train that jitter or a batching MAC tore apart: what came at least")
	s.TrainMeasured(pace.Train{Bytes: 15 * packet, Span: 5 * ms})
	s.rate(2.77 * 3e6)

	t.Logf("# a train over a token bucket: the first flight is bounded")
	s.TrainMeasured(pace.Train{Bytes: 150 * packet, Span: 150 * time.Microsecond, Even: true})
	s.rate(1e9)
	require.Equal(t, 512<<10, s.Window())

	t.Logf("# trains that make no sense")
	s.TrainMeasured(pace.Train{Bytes: 0, Span: ms, Even: true})
	s.TrainMeasured(pace.Train{Bytes: 1000, Span: 0, Even: true})
	s.TrainMeasured(pace.Train{Bytes: 15 * packet, Span: 99 * time.Microsecond, Even: true}) // as the receiver took them in one call
	s.TrainMeasured(pace.Train{Bytes: 1000, Span: -ms, Even: true})
	s.rate(1e9)
}

// Two small packets of play, which jitter has spread, are no rate: a transfer that began
// then continued at a thousandth of the path's rate (stream.TestSealedOnABadPath).
func TestPlayIsNoRate(t *testing.T) {
	const small = 100
	for _, rtt := range []time.Duration{50 * ms, 0} {
		s := newSteps(t)
		s.Guess(rtt)
		before := s.Rate()
		for range 6 {
			first := s.Sent(s.now, small, 0)
			second := s.Sent(s.now, small, small)
			s.Limited(2 * small)
			third := s.Sent(s.now.Add(40*ms), small, 2*small)
			s.pass(90 * ms)
			s.Acked(s.now, first, small, s.now.Add(-60*ms))
			s.Acked(s.now, second, small, s.now.Add(-40*ms))
			s.Acked(s.now, third, small, s.now)
			s.Feedback(s.now, 0)
		}
		require.Equal(t, pace.Start, s.State())
		require.GreaterOrEqual(t, s.Rate(), before, "with a round trip of %v", rtt)
	}
}

func TestNextPaces(t *testing.T) {
	s := newSteps(t)
	s.Guess(50 * ms)
	s.TrainMeasured(pace.Train{Bytes: 15 * packet, Span: 15 * ms, Even: true})
	start := s.now
	s.send(32)
	t.Logf("# 32 packets at one a millisecond")
	require.InDelta(t, 31*float64(ms), float64(s.now.Sub(start)), float64(ms)/10)

	t.Logf("# a full window waits for a probe timeout")
	at, ok := s.Next(s.now, packet, s.Window())
	require.True(t, ok)
	require.Equal(t, s.PTO(), at.Sub(s.now))
}

// With round trips of 50 ms and a packet a millisecond, the estimate is a
// packet a millisecond, and Start ends.
func TestEstimate(t *testing.T) {
	s := newSteps(t)
	s.Guess(50 * ms)
	s.TrainMeasured(pace.Train{Bytes: 15 * packet, Span: 15 * ms, Even: true})
	first := s.now
	flight := s.send(32)
	for i := range 32 {
		s.now = first.Add(time.Duration(50+i) * ms)
		s.ack(flight[i], 25*ms)
		flight = append(flight, s.send(1)...)
	}
	first = first.Add(50 * ms)
	for i, p := range flight[32:] {
		s.now = first.Add(time.Duration(50+i) * ms)
		s.ack(p, 25*ms)
	}
	require.InEpsilon(t, 1e6, s.Estimate(), 0.03)
	latest, smoothed, least := s.RTT()
	require.InDelta(t, float64(50*ms), float64(least), float64(2*ms))
	require.InDelta(t, float64(50*ms), float64(latest), float64(2*ms))
	require.InDelta(t, float64(50*ms), float64(smoothed), float64(2*ms))
	require.NotEqual(t, pace.Start, s.State())
	require.Less(t, s.Queue(), 2*ms)
}

// inQueue returns a controller in Cruise with a queue that it sees.
func inQueue(t *testing.T) *steps {
	s := newSteps(t)
	s.Guess(50 * ms)
	s.TrainMeasured(pace.Train{Bytes: 15 * packet, Span: 15 * ms, Even: true})
	for s.State() != pace.Cruise {
		flight := s.send(10)
		s.pass(50 * ms)
		for i, p := range flight {
			s.ack(p, 25*ms+time.Duration(len(flight)-1-i)*ms)
		}
	}
	p := s.send(1)[0]
	s.pass(62 * ms)
	s.ack(p, 25*ms)
	require.Equal(t, pace.Cruise, s.State())
	require.Greater(t, s.Queue(), 5*ms)
	return s
}

// TestDarkIsNotPaidFor: packets that were sent in Dark delay nothing once the
// path is back, however large they were.
func TestDarkIsNotPaidFor(t *testing.T) {
	s := inQueue(t)
	s.send(10)
	s.pass(3*s.PTO() + ms)
	var newest pace.Sample
	for range 20 {
		at, ok := s.Next(s.now, 8*packet, s.inFlight)
		require.True(t, ok)
		if at.After(s.now) {
			s.now = at
		}
		require.Equal(t, pace.Dark, s.State())
		newest = s.Sent(s.now, 8*packet, s.inFlight)
	}
	s.pass(50 * ms)
	s.ack(newest, 25*ms)
	require.Equal(t, pace.Start, s.State())
	at, ok := s.Next(s.now, packet, 0)
	require.True(t, ok)
	require.False(t, at.After(s.now))
}

// TestBlockedYields: a socket that would have blocked is a queue in this machine.
func TestBlockedYields(t *testing.T) {
	s := inQueue(t)
	s.Blocked(s.now)
	require.Equal(t, pace.Drain, s.State())
}

func TestLimitedSamplesDoNotLower(t *testing.T) {
	s := inQueue(t)
	before := s.Estimate()
	for range 40 {
		s.Limited(s.inFlight)
		p := s.send(1)[0]
		s.pass(50 * ms)
		s.ack(p, 25*ms)
	}
	require.GreaterOrEqual(t, s.Estimate(), before)
}

func TestSilence(t *testing.T) {
	s := inQueue(t)
	s.send(10)
	estimate := s.Estimate()
	t.Logf("# no ack for 3 PTO: a packet a PTO")
	s.pass(3*s.PTO() + ms)
	at, ok := s.Next(s.now, packet, s.inFlight)
	require.True(t, ok)
	require.False(t, at.After(s.now))
	require.Equal(t, pace.Dark, s.State())
	probe := s.send(1)[0]
	at, _ = s.Next(s.now, packet, s.inFlight)
	require.Equal(t, s.PTO(), at.Sub(s.now))

	t.Logf("# an ack: begin at half the rate or less; what was lost in the dark does not count")
	s.pass(50 * ms)
	s.Lost(s.now, pace.Sample{}, packet)
	s.ack(probe, 25*ms)
	require.Equal(t, pace.Start, s.State())
	require.LessOrEqual(t, s.Rate(), estimate/2)
	require.Greater(t, s.Rate(), estimate/8)

	t.Logf("# 10 s: stopped, until Reset")
	s.send(2)
	s.pass(11 * time.Second)
	_, ok = s.Next(s.now, packet, s.inFlight)
	require.False(t, ok)
	require.Equal(t, pace.Stopped, s.State())
	s.Reset(s.now)
	_, ok = s.Next(s.now, packet, 0)
	require.True(t, ok)
}

func TestReset(t *testing.T) {
	s := inQueue(t)
	old := s.send(5)
	s.pass(20 * ms)
	s.Reset(s.now)
	require.Equal(t, pace.Start, s.State())
	require.Zero(t, s.Estimate())
	s.pass(30 * ms)
	for _, p := range old[:4] {
		s.ack(p, 25*ms)
	}
	s.Lost(s.now, old[4], packet)
	s.Feedback(s.now, 0)
	_, _, least := s.RTT()
	require.Zero(t, least, "packets of the old path say nothing of the new")
	require.Zero(t, s.Loss())
}

func TestClockThatRunsBack(t *testing.T) {
	s := inQueue(t)
	p := s.send(1)[0]
	s.pass(-time.Hour)
	s.ack(p, 25*ms)
	s.Acked(s.now, p, packet, time.Time{})
	for _, years := range []int{-5000, 5000} {
		s.Acked(s.now, p, packet, s.now.AddDate(years, 0, 0))
		s.Feedback(s.now, 0)
	}
	s.Feedback(s.now, 0)
	require.False(t, math.IsNaN(s.Rate()))
	require.Greater(t, s.Rate(), 0.0)
}

func TestNoAllocations(t *testing.T) {
	s := inQueue(t)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		p := s.Sent(s.now, packet, s.inFlight)
		s.Next(s.now, packet, packet)
		s.pass(ms)
		s.Acked(s.now, p, packet, s.now)
		s.Lost(s.now, p, packet)
		s.Feedback(s.now, 0)
	}))
}

// Whatever its owner and the peer report, the controller returns a rate and a
// window that a sender can use.
func TestAnyScript(t *testing.T) {
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 3))
	for range 20 {
		script := make([]byte, 2000)
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		play(t, script)
	}
}

func FuzzController(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, script []byte) { play(t, script) })
}

// play reads a script of two bytes an operation.
func play(t *testing.T, script []byte) {
	c := pace.New(pace.Config{})
	now := netsim.Epoch
	var sent []pace.Sample
	for i := 0; i+1 < len(script); i += 2 {
		n := int(script[i+1])
		now = now.Add(time.Duration(n) * time.Duration(n) * 10 * time.Microsecond)
		take := func() (s pace.Sample) {
			if len(sent) > 0 {
				s, sent = sent[0], sent[1:]
			}
			return s
		}
		switch op := script[i] % 16; op {
		default:
			sent = append(sent, c.Sent(now, 1500, 1500*len(sent)))
		case 5, 6, 7:
			c.Acked(now, take(), 1500, now.Add(time.Duration(n-128)*ms))
		case 8:
			c.Lost(now, take(), 1500)
		case 9, 10:
			c.Feedback(now, 1500*len(sent))
		case 11:
			c.Next(now, 1500, 1500*len(sent))
		case 12:
			c.Limited(1500 * len(sent))
		case 13:
			c.Guess(time.Duration(n) * ms)
		case 14:
			c.TrainMeasured(pace.Train{Bytes: n * 100, Span: time.Duration(n) * ms, Even: true})
		case 15:
			if n < 20 {
				c.Reset(now)
			} else {
				c.Blocked(now)
			}
		}
		require.Greater(t, c.Rate(), 0.0, "%v", c.State())
		require.False(t, math.IsInf(c.Rate(), 0) || math.IsNaN(c.Rate()), "%v", c.State())
		require.GreaterOrEqual(t, c.Window(), 0, "%v", c.State())
		require.GreaterOrEqual(t, c.Queue(), time.Duration(0), "%v", c.State())
		require.Positive(t, c.PTO())
	}
}

// TestFirstFlightIgnoresOthersQueue: the first round trip of many controllers
// that begin at once includes the queue that they make together. That made each
// one's first flight longer, and it was sent into the queue.
func TestFirstFlightIgnoresOthersQueue(t *testing.T) {
	s := newSteps(t)
	s.Guess(50 * ms)
	s.TrainMeasured(pace.Train{Bytes: 15 * packet, Span: 15 * ms, Even: true})
	window := s.Window()
	sent := s.send(1)
	s.pass(80 * ms)
	s.ack(sent[0], 0)
	require.Equal(t, window, s.Window())
}
