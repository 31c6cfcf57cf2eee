package slices

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// rivalByte is the first byte of a rival's packets.
const rivalByte = 0xee

// A rival is a New Reno flow that always has something to send. It shares the links of a side.
type rival struct {
	*side
	sends     bool
	window    float64 // in packets
	threshold float64 // of slow start
	next      uint64
	flying    []uint64 // numbers of its packets in flight, in order
	reduced   uint64   // losses of packets below this number don't count again
	heard     time.Time
	acks      []uint64 // to send
	turn      bool
	got       int // packets
}

func newRival(s *side, sends bool) *rival {
	return &rival{side: s, sends: sends, window: 10, threshold: 1 << 20}
}

func (r *rival) Receive(now time.Time, packet []byte) error {
	if packet[0] != rivalByte {
		return r.side.Receive(now, packet)
	}
	n := binary.BigEndian.Uint64(packet[1:])
	if !r.sends {
		r.got++
		r.acks = append(r.acks, n)
		return nil
	}
	r.heard = now
	for len(r.flying) > 0 && r.flying[0]+3 <= n {
		r.reduce(r.flying[0])
		r.flying = r.flying[1:]
	}
	for i, f := range r.flying {
		if f == n {
			r.flying = append(r.flying[:i], r.flying[i+1:]...)
			break
		}
	}
	if r.window < r.threshold {
		r.window++
	} else {
		r.window += 1 / r.window
	}
	return nil
}

// reduce halves the window because packet n was lost, but once for each round trip.
func (r *rival) reduce(n uint64) {
	if n >= r.reduced {
		r.window = max(r.window/2, 2)
		r.threshold = r.window
		r.reduced = r.next
	}
}

func (r *rival) Advance(now time.Time) error {
	if r.sends && len(r.flying) > 0 && now.Sub(r.heard) >= time.Second {
		r.flying = nil
		r.window, r.threshold, r.heard = 2, r.window/2, now
	}
	return r.side.Advance(now)
}

func (r *rival) NextTimeout() (time.Time, bool) {
	at, ok := r.side.NextTimeout()
	if timeout := r.heard.Add(time.Second); len(r.flying) > 0 && (!ok || timeout.Before(at)) {
		return timeout, true
	}
	return at, ok
}

// AppendPacket takes turns with the side.
func (r *rival) AppendPacket(now time.Time, buf []byte, size int) ([]byte, uint64, bool) {
	r.turn = !r.turn
	if r.turn {
		if packet, ok := r.appendOwn(now, buf); ok {
			return packet, repairNumber, true
		}
	}
	if packet, n, ok := r.side.AppendPacket(now, buf, size); ok {
		return packet, n, true
	}
	packet, ok := r.appendOwn(now, buf)
	return packet, repairNumber, ok
}

func (r *rival) appendOwn(now time.Time, buf []byte) ([]byte, bool) {
	var n uint64
	switch {
	case len(r.acks) > 0:
		n, r.acks = r.acks[0], r.acks[1:]
		return binary.BigEndian.AppendUint64(append(buf, rivalByte), n), true
	case !r.sends || len(r.flying) >= int(r.window):
		return buf, false
	}
	if len(r.flying) == 0 {
		r.heard = now
	}
	r.flying = append(r.flying, r.next)
	buf = binary.BigEndian.AppendUint64(append(buf, rivalByte), r.next)
	r.next++
	return append(buf, make([]byte, 1200-9)...), true
}

// TestARivalIsYieldedTo: slices leave about half of the path to a flow that fills its queue. When
// they probed for a higher rate in the queue of the flow, it had a quarter.
func TestARivalIsYieldedTo(t *testing.T) {
	seed := testkit.Seed(t)
	trips := []time.Duration{50 * time.Millisecond, 20 * time.Millisecond, 150 * time.Millisecond}
	for _, rtt := range trips[:testkit.Brief(1, 3)] {
		for _, jitter := range []time.Duration{0, 15 * time.Millisecond} {
			path := netsim.Config{Delay: rtt / 2, Jitter: jitter, Rate: 20e6, Queue: 256 << 10, Seed: seed}
			a, b := newRival(newSide(parts(4000, 32_000)...), true), newRival(newSide(), false)
			p := netsim.NewPair(a, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 1 << 20})
			require.NoError(t, p.RunFor(20*time.Second))
			had, mine := b.got, len(b.side.got)
			require.NoError(t, p.RunFor(20*time.Second))
			share := float64(b.got-had) * 1228 * 8 / 20 / 20e6
			own := float64(len(b.side.got)-mine) * 32_000 * 8 / 20 / 20e6
			t.Logf("%v, jitter %v: %.2f of the path, and slices %.2f", rtt, jitter, share, own)
			require.Greater(t, share, 0.4)
			require.Greater(t, share+own, 0.9)
		}
	}
}

// TestALossyPathIsFilled: the start ended early, and then the rate hardly grew, since jitter used
// up what the window had beyond the path. Transfers took 5.2 s longer than the ideal.
func TestALossyPathIsFilled(t *testing.T) {
	for seed := range uint64(testkit.Brief(2, 8)) {
		path := netsim.Config{Delay: 75 * time.Millisecond, Jitter: 15 * time.Millisecond, Rate: 50e6, Queue: 1 << 20, Loss: 0.1, Seed: seed}
		a, b := newSide(parts(400, 32_000)...), newSide()
		p := netsim.NewPair(a, b, netsim.PairConfig{AtoB: path, BtoA: path, Max: 1243, Window: 1 << 20})
		require.NoError(t, p.Run(time.Minute, func() bool { return len(b.got) == 400 }))
		ideal := 400 * 32_500 * 8 / 50e6 / 0.9
		require.Less(t, p.Now().Sub(netsim.Epoch).Seconds(), ideal+3.5, "seed %d", seed)
	}
}
