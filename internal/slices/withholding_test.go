package slices

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// A withholder is a sender that counts how often it withholds each slice.
type withholder struct {
	sender
	times map[sliceName]int
	last  uint64
}

type sliceName struct {
	chunk uint16
	index uint8
}

func (w *withholder) AppendPacket(now time.Time, buf []byte, size int) ([]byte, uint64, bool) {
	p, n, ok := w.sender.AppendPacket(now, buf, size)
	if c := w.out.withheld.current; c != 0 && c != w.last {
		w.last = c
		s := w.out.flight.At(c - 1)
		w.times[sliceName{s.id, s.index}]++
	}
	return p, n, ok
}

// TestASliceIsWithheldOnce moves 22 MB over paths that hold more than 1,000 slices, so that a slice
// is withheld while as many others are sent as lie between two that are withheld. When it was due,
// it was withheld again, up to eight times, and nothing was delivered for half a minute.
func TestASliceIsWithheldOnce(t *testing.T) {
	random := testkit.Rand(t)
	for _, delay := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond} {
		const messages = 700
		a, b := newSide(slices.Repeat(parts(1, 32_000), messages)...), newSide()
		a.Withhold(random.IntN)
		w := &withholder{sender: sender{a}, times: map[sliceName]int{}}
		path := netsim.Config{Delay: delay, Rate: 100e6, Queue: 8 << 20}
		p := netsim.NewPair(w, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 16 << 20})
		require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) == messages && a.out.idle() }))
		t.Logf("round trip %v: %v, %d slices withheld", 2*delay, p.Now().Sub(netsim.Epoch), len(w.times))
		require.Less(t, p.Now().Sub(netsim.Epoch), 4*time.Second)
		for s, n := range w.times {
			require.Equal(t, 1, n, "slice %d of chunk %d", s.index, s.chunk)
		}
	}
}

// eager is a side that sends messages whenever it can.
type eager struct{ sender }

func (e eager) AppendPacket(now time.Time, buf []byte, size int) ([]byte, uint64, bool) {
	if e.Advance(now) != nil {
		return buf, 0, false
	}
	return e.sender.AppendPacket(now, buf, size)
}

// TestAWithheldSliceHoldsUpNoMessage: on a path so slow that only one slice may be queued, a slice
// that was withheld was that one. So nothing was sent until it was due. If a slice in ten was
// withheld, transfers took up to 1.8 times as long.
func TestAWithheldSliceHoldsUpNoMessage(t *testing.T) {
	random := testkit.Rand(t)
	for _, c := range []struct {
		rate int64
		rtt  time.Duration
	}{
		{200e3, 50 * time.Millisecond}, {200e3, 600 * time.Millisecond},
		{400e3, 50 * time.Millisecond}, {400e3, 600 * time.Millisecond},
	} {
		const size = 3000
		messages := int(c.rate / 8 * 20 / size)
		path := netsim.Config{Delay: c.rtt / 2, Rate: c.rate, Queue: 1 << 20}
		timed := func(random func(n int) int) time.Duration {
			a, b := newSide(parts(messages, size)...), newSide()
			a.Withhold(random)
			p := netsim.NewPair(eager{sender{a}}, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 40_000})
			require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) == messages && a.out.idle() }))
			return p.Now().Sub(netsim.Epoch)
		}
		without, longest := timed(nil), time.Duration(0)
		for range testkit.Brief(3, 20) {
			longest = max(longest, timed(often(random)))
		}
		t.Logf("%d bit/s, %v: %v without and up to %v", c.rate, c.rtt, without, longest)
		require.Less(t, longest.Seconds(), 1.05*without.Seconds(), "%d bit/s, %v", c.rate, c.rtt)
	}
}
