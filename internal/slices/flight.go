package slices

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A fate says what has become of a sending, as far as we know.
type fate uint8

const (
	inFlight fate = iota
	lost
	arrived
)

// A sending is one transmission of a slice.
type sending struct {
	at    time.Duration // on the outbox's clock
	mark  recovery.Mark // from the gate; empty on a path that reports fates
	size  uint16        // of the datagram, in bytes
	id    uint16        // of the slice's chunk
	index uint8         // of the slice in its chunk
	again bool          // the slice was sent before, so an ack doesn't tell which sending arrived
	fate  fate
}

// firstSendings is the number of sendings for which a flight has room at first.
const firstSendings = 64

// A flight is a log of sendings, beginning with the oldest one in flight.
type flight struct {
	recovery.Ring[sending]
	bytes int // bytes in flight
	count int // sendings in flight
}

// launch adds a sending and returns its number.
func (f *flight) launch(s sending) (number uint64) {
	if f.Len() == f.Cap() {
		f.dropDecided() // the ring may then not have to grow
	}
	newest := f.Push(firstSendings)
	*newest = s
	f.bytes += int(s.size)
	f.count++
	return f.Next - 1
}

// get returns a sending, or nil if it is so old that we no longer have it.
func (f *flight) get(number uint64) *sending {
	if !f.Has(number) {
		return nil
	}
	return f.At(number)
}

// isInFlight reports whether a sending is in flight.
func (f *flight) isInFlight(number uint64) bool {
	s := f.get(number)
	return s != nil && s.fate == inFlight
}

// settle sets the fate of a sending. A sending that we have declared lost may still arrive.
func (f *flight) settle(s *sending, as fate) {
	if s.fate == inFlight {
		f.bytes -= int(s.size)
		f.count--
	}
	s.fate = as
}

// dropDecided drops the sendings before the oldest one in flight, since their fates are known, and
// returns the number of that one. ok is false if none is in flight.
func (f *flight) dropDecided() (first uint64, ok bool) {
	for ; f.Oldest < f.Next; f.Oldest++ {
		if f.At(f.Oldest).fate == inFlight {
			return f.Oldest, true
		}
	}
	return 0, false
}
