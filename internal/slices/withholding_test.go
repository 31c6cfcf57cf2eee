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
