package slices

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// fate tells what became of a sending, as far as it is known.
type fate uint8

const (
	flying fate = iota
	lost
	landed
)

// sending is one sending of one slice.
type sending struct {
	at    time.Duration // since the outbox's epoch
	mark  recovery.Mark // the gate's; empty on a path that tells fates
	size  uint16        // bytes of its datagram
	id    uint16        // its chunk
	index uint8         // the slice in its chunk
	again bool          // the slice had left before, so that an ack does not tell which sending arrived
	fate  fate
}

// firstSendings is how many sendings a flight has room for from the start.
const firstSendings = 64

// flight remembers the oldest sending whose fate is open, and all that left after it.
type flight struct {
	recovery.Ring[sending]
	bytes int // of the datagrams of sendings that fly
	count int // of sendings that fly
}

// launch notes a sending and returns its number.
func (f *flight) launch(s sending) (number uint64) {
	if f.Len() == f.Cap() {
		f.firstFlying()
	}
	*f.Push(firstSendings) = s
	f.bytes += int(s.size)
	f.count++
	return f.Next - 1
}

// get returns a sending that is remembered, or nil.
func (f *flight) get(number uint64) *sending {
	if !f.Has(number) {
		return nil
	}
	return f.At(number)
}

// land notes what became of a sending. One that counted as lost may still land.
func (f *flight) land(s *sending, as fate) {
	if s.fate == flying {
		f.bytes -= int(s.size)
		f.count--
	}
	s.fate = as
}

// firstFlying returns the number of the oldest sending that flies, and forgets those before it.
func (f *flight) firstFlying() (number uint64, ok bool) {
	for ; f.Oldest < f.Next; f.Oldest++ {
		if f.At(f.Oldest).fate == flying {
			return f.Oldest, true
		}
	}
	return 0, false
}
