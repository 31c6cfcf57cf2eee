package scenes

import (
	"time"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/sealed"
)

// lead returns how long before Begin the flow's machines start.
func (f Flow) lead() time.Duration {
	if f.Kind == Ours {
		return min(max(f.Lead, opening), f.Begin)
	}
	return 0
}

// machines returns the two machines of a flow, and the value through which the stage observes the
// flow. siblings are the sessions of the server to which our flow belongs, or nil.
func (f Flow) machines(
	seed uint64, begin time.Time, rate int64, rtt time.Duration, siblings *sealed.Siblings,
) (a, b netsim.Machine, watched flow) {
	switch f.Kind {
	case Ours:
		a, b, o := newOurs(f, seed, begin, rate, rtt, siblings)
		return a, b, o
	case Constant:
		const bits = (piece + netsim.UDPOverhead) * 8
		s := &ticker{next: begin, size: piece, interval: time.Duration(bits * 1e9 / f.Rate)}
		to := &sink{}
		return s, to, to
	case Play:
		s := &ticker{next: begin.Add(playPhase(seed)), size: callBytes, interval: playInterval}
		to := &sink{}
		return s, to, to
	}
	s, r := newAcked(f, begin)
	return s, r, r
}

// A receipt records what arrived of a transfer.
type receipt struct {
	want   int             // pieces of the transfer
	have   map[uint32]bool // pieces that arrived
	doneAt time.Time       // when the last of them arrived; zero if it hasn't
}

func newReceipt(bytes int) receipt { return receipt{want: pieces(bytes), have: make(map[uint32]bool)} }

// arrived records a piece, which may have arrived before.
func (r *receipt) arrived(now time.Time, piece uint32) {
	r.have[piece] = true
	if len(r.have) == r.want && r.doneAt.IsZero() {
		r.doneAt = now
	}
}

func (r *receipt) received() int { return len(r.have) * piece }
func (r *receipt) ended() time.Duration {
	if r.doneAt.IsZero() {
		return 0
	}
	return r.doneAt.Sub(netsim.Epoch)
}

// A ticker sends packets of the same size at the same interval. It ignores what arrives.
type ticker struct {
	next     time.Time // when the next packet is sent
	interval time.Duration
	size     int // bytes
}

func (t *ticker) Receive(time.Time, []byte) error { return nil }
func (t *ticker) Advance(time.Time) error         { return nil }
func (t *ticker) NextTimeout() (time.Time, bool)  { return t.next, true }
func (t *ticker) AppendPacket(now time.Time, b []byte, _ int) ([]byte, uint64, bool) {
	if now.Before(t.next) {
		return b, 0, false
	}
	b = appendTime(b, t.next)
	t.next = t.next.Add(t.interval)
	return append(b, make([]byte, t.size-timeBytes)...), 0, true
}

// A sink counts the bytes that arrive, and records how long each packet took.
type sink struct {
	bytes int
	took  []time.Duration
}

func (s *sink) Receive(now time.Time, b []byte) error {
	s.bytes += len(b)
	s.took = append(s.took, now.Sub(timeOf(b)))
	return nil
}
func (s *sink) Advance(time.Time) error                                          { return nil }
func (s *sink) NextTimeout() (time.Time, bool)                                   { return time.Time{}, false }
func (s *sink) AppendPacket(_ time.Time, b []byte, _ int) ([]byte, uint64, bool) { return b, 0, false }
func (s *sink) received() int                                                    { return s.bytes }
func (s *sink) ended() time.Duration                                             { return 0 }
func (s *sink) delays() []time.Duration                                          { return s.took }
func (s *sink) spurious() uint64                                                 { return 0 }
