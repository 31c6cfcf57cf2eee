package slices

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A fate is the fate of a sending, as far as it is known.
type fate uint8

const (
	flying fate = iota
	lost
	landed
)

// A sending is one sending of one slice.
type sending struct {
	at    time.Duration // since the outbox's epoch
	mark  recovery.Mark // from the gate; empty on a path that reports fates
	size  uint16        // of its datagram, in bytes
	id    uint16        // its chunk
	index uint8         // the slice in its chunk
	again bool          // the slice had been sent before, so an ack does not show which sending has arrived
	fate  fate
}

// firstSendings is the initial capacity of a flight.
const firstSendings = 64

// A flight holds the oldest undecided sending, and all that were sent after it.
type flight struct {
	recovery.Ring[sending]
	bytes int // of the datagrams in flight
	count int // number of sendings in flight
}

// launch adds a sending and returns its number.
func (f *flight) launch(s sending) (number uint64) {
	if f.Len() == f.Cap() {
		f.firstFlying()
	}
	*f.Push(firstSendings) = s
	f.bytes += int(s.size)
	f.count++
	return f.Next - 1
}

// get returns a sending, or nil if the flight no longer holds it.
func (f *flight) get(number uint64) *sending {
	if !f.Has(number) {
		return nil
	}
	return f.At(number)
}

// land sets the fate of a sending. One that was declared lost may still land.
func (f *flight) land(s *sending, as fate) {
	if s.fate == flying {
		f.bytes -= int(s.size)
		f.count--
	}
	s.fate = as
}

// firstFlying returns the number of the oldest sending in flight, and removes those before it.
func (f *flight) firstFlying() (number uint64, ok bool) {
	for ; f.Oldest < f.Next; f.Oldest++ {
		if f.At(f.Oldest).fate == flying {
			return f.Oldest, true
		}
	}
	return 0, false
}
