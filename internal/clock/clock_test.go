package clock

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

const ms = time.Millisecond

// path is how long a message is in flight in each direction, and how fast the peer's clock runs.
type path struct {
	up, down         time.Duration
	jitterUp, jitter time.Duration
	lost             float64
	drift            float64
}

// talk is a clock and the peer that it asks.
type talk struct {
	t      *testing.T
	random *rand.Rand
	path   path
	clock  Clock
	now    time.Duration // ours
	ahead  time.Duration // the peer's clock, at now = 0
	since  time.Duration // since when it drifts
}

func newTalk(t *testing.T, p path) *talk {
	return &talk{t: t, random: testkit.Rand(t), path: p, ahead: 1000 * time.Hour}
}

// peer is what the peer's clock says at a time of ours.
func (k *talk) peer(at time.Duration) int64 {
	return int64(at + k.ahead + time.Duration(float64(at-k.since)*k.path.drift))
}

func (k *talk) draw(jitter time.Duration) time.Duration {
	if jitter == 0 {
		return 0
	}
	return time.Duration(k.random.Int64N(int64(jitter)))
}

// exchange asks once: the peer holds the question for up to a tick.
func (k *talk) exchange() {
	if k.random.Float64() < k.path.lost {
		return
	}
	came := k.now + k.path.up + k.draw(k.path.jitterUp)
	left := came + k.draw(33*ms)
	back := left + k.path.down + k.draw(k.path.jitter)
	require.True(k.t, k.clock.Add(Sample{Asked: k.now, Answered: back, Held: time.Duration(k.peer(left) - k.peer(came)), Peer: k.peer(left)}))
	k.now = back
}

// run asks ten times a second at first, then once, and holds that the truth lies within the bound,
// and that the clock never falls. It returns the worst error and bound after the first seconds.
func (k *talk) run(d, settle time.Duration) (worst, widest time.Duration) {
	var before int64 = math.MinInt64
	next := k.now
	for end, start := k.now+d, k.now; k.now < end; {
		k.exchange()
		if next += 100 * ms; k.now-start > time.Second {
			next += 900 * ms
		}
		for k.now = max(k.now, 0); k.now < next; k.now += 10 * ms {
			told, bound, ok := k.clock.At(k.now)
			if !ok {
				continue
			}
			off := time.Duration(told - k.peer(k.now)).Abs()
			require.LessOrEqual(k.t, off, bound+slack, "at %v", k.now)
			require.GreaterOrEqual(k.t, told, before, "at %v", k.now)
			if before = told; k.now-start > settle {
				worst, widest = max(worst, off), max(widest, bound)
			}
		}
	}
	return worst, widest
}

// TestBoundHolds: the truth is never further off than the clock reports, whatever the
// path, and after 2 s the clock is as good as the least round trip allows: a bound of
// half of it, plus the jitter that is left in the quickest of ten exchanges.
func TestBoundHolds(t *testing.T) {
	for name, test := range map[string]struct {
		path  path
		worst time.Duration // off, after 2 s
		bound time.Duration
	}{
		"loopback":   {path{up: ms / 10, down: ms / 10}, ms / 5, ms},
		"Average":    {path{up: 30 * ms, down: 30 * ms, jitterUp: 30 * ms, jitter: 30 * ms, lost: 0.01}, 12 * ms, 52 * ms}, // ten ways with 44 of 60 ms of jitter: one in 10^8
		"Bad":        {path{up: 100 * ms, down: 100 * ms, jitterUp: 100 * ms, jitter: 100 * ms, lost: 0.05}, 50 * ms, 190 * ms},
		"asymmetric": {path{up: 10 * ms, down: 90 * ms, jitter: 20 * ms}, 55 * ms, 65 * ms}, // 40 ms nobody can know
		"drift":      {path{up: 20 * ms, down: 20 * ms, jitterUp: 10 * ms, jitter: 10 * ms, drift: 200e-6}, 10 * ms, 30 * ms},
		"slew":       {path{up: 20 * ms, down: 20 * ms, jitterUp: 10 * ms, jitter: 10 * ms, drift: -480e-6}, 10 * ms, 30 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t, test.path)
			worst, widest := k.run(2*time.Minute, 2*time.Second)
			t.Logf("%v off at most, %v by its bound", worst, widest)
			require.LessOrEqual(t, worst, test.worst)
			require.LessOrEqual(t, widest, test.bound)
			require.Zero(t, k.clock.Steps())
		})
	}
}

// TestDriftBeyondAll: a clock that runs 0.5 % fast is followed, by steps.
func TestDriftBeyondAll(t *testing.T) {
	k := newTalk(t, path{up: 5 * ms, down: 5 * ms, drift: 0.005})
	for range 300 {
		k.exchange()
		k.now += time.Second
		told, _, _ := k.clock.At(k.now)
		if k.now > 10*time.Second {
			require.Less(t, time.Duration(told-k.peer(k.now)).Abs(), 100*ms)
		}
	}
}

// TestSteps: a clock that was set is believed after three exchanges when it is
// off by more than the path can explain, and soon when not.
func TestSteps(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -2 * time.Second, 2 * time.Second, 100 * time.Hour} {
		k := newTalk(t, path{up: 50 * ms, down: 50 * ms, jitter: 20 * ms})
		k.run(20*time.Second, 0)
		k.ahead += step
		for range convincingRun - 1 {
			k.exchange()
			require.False(t, k.clock.Settled(), "the next question comes soon")
		}
		require.Zero(t, k.clock.Steps())
		k.exchange()
		require.EqualValues(t, 1, k.clock.Steps())
		told, bound, _ := k.clock.At(k.now)
		require.LessOrEqual(t, time.Duration(told-k.peer(k.now)).Abs(), bound)
	}
	k := newTalk(t, path{up: 50 * ms, down: 50 * ms})
	k.run(20*time.Second, 0)
	k.ahead += 30 * ms
	for end := k.now + 2*period + 4*time.Second; k.now < end; k.now += time.Second {
		k.exchange()
	}
	told, _, _ := k.clock.At(k.now)
	require.Less(t, time.Duration(told-k.peer(k.now)).Abs(), 10*ms, "older exchanges are forgotten")
}

// TestOneMistake: a single exchange that contradicts the others changes nothing.
func TestOneMistake(t *testing.T) {
	k := newTalk(t, path{up: 20 * ms, down: 20 * ms})
	k.run(5*time.Second, 0)
	for range 20 {
		told, _, _ := k.clock.At(k.now)
		k.clock.Add(Sample{Asked: k.now, Answered: k.now + 40*ms, Peer: k.random.Int64N(Farthest)})
		after, _, _ := k.clock.At(k.now)
		require.Equal(t, told, after)
		k.exchange()
	}
	require.Zero(t, k.clock.Steps())
}

// TestHostileTimes: what a peer makes up neither overflows nor is believed
// where it contradicts itself.
func TestHostileTimes(t *testing.T) {
	edges := []int64{math.MinInt64, -Farthest - 1, -Farthest, -1, 0, 1, Farthest, Farthest + 1, math.MaxInt64}
	for _, peer := range edges {
		for _, held := range edges {
			for _, asked := range []time.Duration{0, time.Hour, 70 * 365 * 24 * time.Hour} {
				var c Clock
				s := Sample{Asked: asked, Answered: asked + 50*ms, Held: time.Duration(held), Peer: peer}
				sound := peer >= -Farthest && peer <= Farthest && held >= 0 && held <= int64(51*ms)
				require.Equal(t, sound, c.Add(s), "%+v", s)
				told, bound, ok := c.At(asked + time.Minute)
				require.Equal(t, sound, ok)
				if ok {
					require.InDelta(t, float64(peer)+60e9, float64(told), 1e9)
					require.Less(t, bound, 100*ms)
				}
			}
		}
	}
	require.False(t, new(Clock).Add(Sample{Asked: time.Second, Answered: 0}), "our own clock ran back")
	random, c := testkit.Rand(t), Clock{}
	for at := time.Duration(0); at < 1000*time.Second; at += 100 * ms {
		c.Add(Sample{Asked: at, Answered: at + 50*ms, Held: time.Duration(random.Int64()), Peer: random.Int64() - random.Int64()})
		c.Add(Sample{Asked: at, Answered: at + 50*ms, Peer: random.Int64N(Farthest) - random.Int64N(Farthest)})
		_, bound, _ := c.At(at)
		require.GreaterOrEqual(t, bound, time.Duration(0))
	}
	require.Zero(t, c.Steps(), "lies that do not agree with each other convince nobody")
}

// FuzzClock: no sequence of samples overflows, and the result does not fall without a step.
func FuzzClock(f *testing.F) {
	f.Add(int64(0), int64(0), int64(1e9), int64(-1e9))
	f.Add(int64(Farthest), int64(-Farthest), int64(math.MaxInt64), int64(5))
	f.Fuzz(func(t *testing.T, a, b, c, d int64) {
		var k Clock
		before, steps := int64(math.MinInt64), k.Steps()
		for i, peer := range []int64{a, b, c, d, a, a, a, b, b, b, d, d, d} {
			at := time.Duration(i) * time.Second
			k.Add(Sample{Asked: at, Answered: at + 50*ms, Held: time.Duration(d), Peer: peer})
			k.Add(Sample{Asked: at, Answered: at + 50*ms, Peer: peer})
			told, bound, ok := k.At(at + 50*ms)
			if !ok {
				continue
			}
			require.Greater(t, bound, time.Duration(0))
			if k.Steps() == steps {
				require.GreaterOrEqual(t, told, before)
			}
			before, steps = told, k.Steps()
		}
	})
}

func TestAllocatesNothing(t *testing.T) {
	k := newTalk(t, path{up: 20 * ms, down: 20 * ms})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		k.clock.Add(Sample{Asked: k.now, Answered: k.now + 50*ms, Peer: k.peer(k.now + 25*ms)})
		k.clock.At(k.now)
		k.now += time.Second
	}))
}
