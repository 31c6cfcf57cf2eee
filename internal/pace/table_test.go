package pace_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
)

// link is a path of the table: the same both ways, with netsim's queue of max(1 BDP, 64 KB).
type link struct {
	rate int64 // bit/s
	rtt  time.Duration
	loss float64
}

func (l link) String() string {
	return fmt.Sprintf("%g Mbit/s %v %g%%", float64(l.rate)/1e6, l.rtt, 100*l.loss)
}

func (l link) world(seed uint64) *world {
	c := netsim.Config{Rate: l.rate, Delay: l.rtt / 2, Loss: l.loss, Seed: seed}
	back := c
	back.Seed = seed + 1
	return newWorld(newSimulated(c), newSimulated(back))
}

// ideal returns the time in which size bytes can arrive.
func (l link) ideal(size int) time.Duration {
	return l.rtt/2 + time.Duration(float64(size)*8e9/float64(l.rate)/(1-l.loss))
}

// joined returns a controller as a connection has it after Join: QUIC knows the round trip,
// and a train of 16 packets has passed the path, whose spacing factor distorts; 0 = no train.
func (l link) joined(factor float64) *pace.Controller {
	c := pace.New(pace.Config{Packet: charged})
	c.Guess(l.rtt + 2*ms)
	if factor > 0 {
		c.TrainMeasured(pace.Train{Bytes: 15 * charged, Span: time.Duration(15 * charged * 8e9 / float64(l.rate) / factor), Even: true})
	}
	return c
}

// An outcome is the result of a transfer.
type outcome struct{ ratio, wire float64 }

func median(runs []outcome) outcome {
	pick := func(of func(outcome) float64) float64 {
		var all []float64
		for _, r := range runs {
			all = append(all, of(r))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return outcome{pick(func(o outcome) float64 { return o.ratio }), pick(func(o outcome) float64 { return o.wire })}
}

func (l link) transfer(t testing.TB, seed uint64, size, parity int, factor float64) outcome {
	w := l.world(seed)
	b := newBulk(0, size, l.joined(factor), curtain(seed)).withParity(parity)
	w.flows = []flow{b}
	require.True(t, w.until(5*time.Minute, w.done), "%v: %d of %d pieces in %v", l, b.count, b.pieces, w.since())
	return outcome{b.took().Seconds() / l.ideal(size).Seconds(), b.wire()}
}

// The table of what the sealed carrier is to reach on lossy links: the times over the ideal and
// the bytes over the blob's. For a train that was wrong, or none, the figures are only printed.
func TestTable(t *testing.T) {
	survey(t, func(seed uint64) (f []figure) {
		for _, row := range table {
			for _, factor := range []float64{1, 0.25, 4, 0} {
				var runs []outcome
				some := uint64(1)
				if factor == 1 {
					some = 3
				}
				for i := range some {
					runs = append(runs, row.transfer(t, seed+2*i, row.size, row.parity, factor))
				}
				got := median(runs)
				name := fmt.Sprintf("%v %d KiB train x%g: ", row.link, row.size>>10, factor)
				if factor == 1 {
					f = append(f, atMost(name+"ratio", got.ratio, row.ratio), atMost(name+"wire", got.wire, row.wire))
				} else {
					f = append(f, shown(name+"ratio", got.ratio), shown(name+"wire", got.wire))
				}
			}
		}
		return f
	})
}

var table = []struct {
	link
	size        int
	ratio, wire float64
	parity      int
}{
	{link{10e6, 50 * ms, 0.01}, 4 << 20, 1.12, 1.10, 0},
	{link{10e6, 100 * ms, 0.05}, 4 << 20, 1.20, 1.15, 0},
	{link{100e6, 50 * ms, 0.01}, 4 << 20, 1.40, 1.12, 0},
	{link{100e6, 100 * ms, 0.05}, 4 << 20, 1.75, 1.25, 0},
	{link{100e6, 50 * ms, 0.01}, 32 << 20, 1.15, 1.08, 0},
	{link{100e6, 100 * ms, 0.02}, 256 << 10, 2.0, 1.3, 16},
	{link{10e6, 100 * ms, 0}, 256 << 10, 1.15, 1.3, 0},
}
