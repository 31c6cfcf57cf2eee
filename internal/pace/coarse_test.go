package pace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/testkit"
)

// A coarse is a controller whose clock, and whose peer's, move in steps, as
// that of Windows does, by 15.6 ms at worst.
type coarse struct {
	*pace.Controller
	step time.Duration
}

func (c coarse) floor(t time.Time) time.Time {
	return netsim.Epoch.Add(t.Sub(netsim.Epoch).Truncate(c.step))
}

func (c coarse) Sent(now time.Time, size, inFlight int) pace.Sample {
	return c.Controller.Sent(c.floor(now), size, inFlight)
}

func (c coarse) Acked(now time.Time, s pace.Sample, size int, arrival time.Time) {
	c.Controller.Acked(c.floor(now), s, size, c.floor(arrival))
}

func (c coarse) Lost(now time.Time, s pace.Sample, size int) {
	c.Controller.Lost(c.floor(now), s, size)
}

func (c coarse) Feedback(now time.Time, inFlight int) { c.Controller.Feedback(c.floor(now), inFlight) }

// Next returns the step at which the clock shows that it is time.
func (c coarse) Next(now time.Time, size, inFlight int) (time.Time, bool) {
	at, ok := c.Controller.Next(c.floor(now), size, inFlight)
	if at.After(now) {
		at = c.floor(at.Add(c.step - 1))
	}
	return at, ok
}

// TestCoarseClocks: clocks that move in steps cost a little of the first
// second, and nothing later (0.91 to 0.96 of the link).
func TestCoarseClocks(t *testing.T) {
	seed := testkit.Seed(t)
	for _, l := range []link{{2e6, 40 * ms, 0}, {10e6, 50 * ms, 0.01}, {100e6, 50 * ms, 0.001}} {
		for _, step := range []time.Duration{ms, 4 * ms, 15625 * time.Microsecond} {
			w := l.world(seed)
			a := newBulk(0, endless, coarse{l.joined(1), step}, netsim.Epoch)
			w.flows = []flow{a}
			w.until(time.Second, w.done)
			first := a.received
			w.until(6*time.Second, w.done)
			part := float64(a.received-first) * 8 / 5 / float64(l.rate)
			t.Logf("%v, steps of %v: %.2f of the first second, then %.2f", l, step, float64(first)*8/float64(l.rate), part)
			require.Greater(t, part, 0.8, "seed %d", seed)
		}
	}
}
