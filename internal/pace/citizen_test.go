package pace_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
)

// shared is the link of the good-citizen lines: 20 Mbit/s, 50 ms.
func shared(loss float64) link { return link{20e6, 50 * ms, loss} }

// endless is more than any test sends.
const endless = 1 << 29

// Two transfers over one bottleneck end within 20 % of each other. The median pair does; no pair is far from it.
func TestTwoTransfersShare(t *testing.T) {
	seed := sceneSeed(t)
	const pairs = 15
	for _, loss := range []float64{0, 0.01} {
		l := shared(loss)
		var ratios []float64
		for i := range uint64(pairs) {
			w := l.world(seed + 2*i)
			a := newBulk(0, 16<<20, l.joined(1), netsim.Epoch.Add(ms))
			b := newBulk(1, 16<<20, l.joined(1), netsim.Epoch.Add(time.Duration(1+37*i)*ms))
			w.flows = []flow{a, b}
			require.True(t, w.until(5*time.Minute, w.done))
			x, y := a.took().Seconds(), b.took().Seconds()
			ratios = append(ratios, max(x, y)/min(x, y))
		}
		slices.Sort(ratios)
		t.Logf("loss %g: median %.2f, 12 of 15 within %.2f, all within %.2f", loss, ratios[pairs/2], ratios[11], ratios[pairs-1])
		assert.LessOrEqual(t, ratios[pairs/2], 1.2)
		assert.LessOrEqual(t, ratios[pairs-1], 1.4)
	}
}

// A second transfer that begins while another has the link gets its part of it.
func TestLatecomer(t *testing.T) {
	seed := sceneSeed(t)
	for i := range uint64(5) {
		l := shared(0.01 * float64(i%2))
		w := l.world(seed + 2*i)
		a := newBulk(0, endless, l.joined(1), netsim.Epoch.Add(ms))
		b := newBulk(1, endless, l.joined(0), netsim.Epoch.Add(3*time.Second))
		w.flows = []flow{a, b}
		w.until(8*time.Second, w.done)
		x, y := a.received, b.received
		w.until(28*time.Second, w.done)
		x, y = a.received-x, b.received-y
		t.Logf("loss %g: Mbit/s in 20 s after 5 s: %.1f and %.1f", l.loss, float64(x)*8/20e6, float64(y)*8/20e6)
		require.Greater(t, float64(min(x, y)), 0.25*float64(x+y))
	}
}

// mbits is what flows received in Mbit/s of payload from 5 s to 35 s.
func mbits(w *world, flows ...*bulk) []float64 {
	w.until(5*time.Second, w.done)
	before := make([]int, len(flows))
	for i, f := range flows {
		before[i] = f.received
	}
	w.until(35*time.Second, w.done)
	rates := make([]float64, len(flows))
	for i, f := range flows {
		rates[i] = float64(f.received-before[i]) * 8 / 30e6
	}
	return rates
}

// New Reno beside a transfer keeps 30 % of the link or 80 % of what it reaches alone, whichever is less. Random loss makes
// Reno's own rate vary from run to run, so that means are compared.
func TestRenoBeside(t *testing.T) {
	seed := sceneSeed(t)
	const runs = 6
	for _, beta := range []float64{0.5, 0.7} {
		for _, loss := range []float64{0, 0.01} {
			var alone, beside, ours float64
			for i := range uint64(runs) {
				l := shared(loss)
				w := l.world(seed + 2*i)
				a := newBulk(0, endless, newReno(beta), netsim.Epoch.Add(ms))
				w.flows = []flow{a}
				alone += mbits(w, a)[0] / runs

				w = l.world(seed + 2*i)
				a = newBulk(0, endless, newReno(beta), netsim.Epoch.Add(ms))
				b := newBulk(1, endless, l.joined(1), netsim.Epoch.Add(time.Duration(1+i%2*2000)*ms))
				w.flows = []flow{a, b}
				got := mbits(w, a, b)
				beside, ours = beside+got[0]/runs, ours+got[1]/runs
			}
			t.Logf("beta %g loss %g: Reno alone %.1f Mbit/s, beside %.1f (%.0f %%); ours %.1f", beta, loss, alone, beside, 100*beside/alone, ours)
			assert.GreaterOrEqual(t, beside, min(0.3*20, 0.8*alone))
		}
	}
}

// A transfer alone keeps no standing queue above max(5 ms, RTT/4).
func TestQueueAlone(t *testing.T) {
	seed := sceneSeed(t)
	for _, l := range []link{{20e6, 50 * ms, 0}, {20e6, 50 * ms, 0.01}, {10e6, 100 * ms, 0.05}, {100e6, 50 * ms, 0.01}, {100e6, 10 * ms, 0}, {2e6, 30 * ms, 0.02}, {200e6, 2 * ms, 0}} {
		w := l.world(seed)
		b := newBulk(0, endless, l.joined(1), netsim.Epoch.Add(ms))
		w.flows = []flow{b}
		w.until(2*time.Second, w.done)
		q := watchQueue(w, max(2*l.rtt, 100*ms)/50)
		from := b.received
		w.until(12*time.Second, w.done)
		standing, mean, most := q.standing(50), q.mean(), q.most()
		t.Logf("%-24v queue: standing at most %v, mean %v, most %v; goodput %.3f", l, standing.Round(10*time.Microsecond), mean.Round(10*time.Microsecond), most.Round(10*time.Microsecond),
			float64(b.received-from)*8/10/float64(l.rate)/(1-l.loss))
		packet := time.Duration(charged * 8e9 / float64(l.rate))
		assert.LessOrEqual(t, standing, max(5*ms, l.rtt/4, 6*packet))
		assert.LessOrEqual(t, mean, max(5*ms, l.rtt/8, 3*packet))
	}
}

// queue is the time that a packet would wait at the bottleneck, seen every so often.
type queue []time.Duration

func watchQueue(w *world, each time.Duration) *queue {
	q := new(queue)
	w.each, w.watched = each, w.now
	w.watch = func(time.Duration) { *q = append(*q, w.there.backlog(w.now)) }
	return q
}

// standing is the greatest of the least waits in n looks in a row; over 100 ms or two round trips, CoDel's notion of it
// (RFC 8289).
func (q queue) standing(n int) time.Duration {
	most := time.Duration(0)
	for i := range len(q) - n {
		least := q[i]
		for _, d := range q[i : i+n] {
			least = min(least, d)
		}
		most = max(most, least)
	}
	return most
}

func (q queue) mean() time.Duration {
	sum := time.Duration(0)
	for _, d := range q {
		sum += d
	}
	return sum / time.Duration(max(len(q), 1))
}

func (q queue) most() time.Duration {
	most := time.Duration(0)
	for _, d := range q {
		most = max(most, d)
	}
	return most
}

var _ governor = (*pace.Controller)(nil)
