package slices

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A fate says whether a sending arrived or was lost, as far as this end knows.
type fate uint8

const (
	flying fate = iota
	lost
	landed
)

// A sending is one transmission of a slice.
type sending struct {
	at    time.Duration // time since the outbox's epoch
	mark  recovery.Mark // from the gate; empty on a path that reports fates
	size  uint16        // datagram size in bytes
	id    uint16        // the slice's chunk
	index uint8         // the slice's index in its chunk
	again bool          // the slice was sent before, so an ack does not show which sending arrived
	fate  fate
}

// firstSendings is the initial capacity of a flight.
const firstSendings = 64

// A flight holds the oldest undecided sending and all sendings after it.
type flight struct {
	recovery.Ring[sending]
	bytes int // size of the datagrams in flight
	count int // number of sendings in flight
}

// launch adds a sending and returns its number.
func (f *flight) launch(s sending) (number uint64) {
	if f.Len() == f.Cap() {
		f.firstFlying()
	}
	newest := f.Push(firstSendings)
	*newest = s
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

// land sets the fate of a sending. A sending that was declared lost may still arrive.
func (f *flight) land(s *sending, as fate) {
	if s.fate == flying {
		f.bytes -= int(s.size)
		f.count--
	}
	s.fate = as
}

// firstFlying returns the number of the oldest sending in flight and removes the sendings
// before it.
func (f *flight) firstFlying() (number uint64, ok bool) {
	for ; f.Oldest < f.Next; f.Oldest++ {
		if f.At(f.Oldest).fate == flying {
			return f.Oldest, true
		}
	}
	return 0, false
}
