package chunk

import (
	mathbits "math/bits"
	"slices"
	"time"
)

// none stands for no slice.
const none = -1

// A list holds slices of one flight in order, linked through flight.slices. A
// slice is in at most one list.
type list struct{ head, tail int16 }

// A sending is what a sender knows about one slice.
type sending struct {
	sent       time.Duration // when it was last sent
	before     time.Duration // when it was sent before that; equal to sent if it was sent once
	order      uint64        // number of its last sending, counted over all of the sender's
	prev, next int16         // neighbours in its list
	state      state
	resent     bool // it was sent more than once, so its ack does not tell which sending arrived
}

// A state is the state of a slice at its sender.
type state uint8

const (
	unsent  state = iota
	waiting       // for its ack, or until it is due again
	lost          // reported by Lost
	acked
)

// A flight is a chunk in flight.
//
// The article walks a cursor around the slices, and skips those that were acked or
// sent too recently. All slices behind the cursor were sent in its order. So the same
// slices are sent in the same order if slices that were never sent go first, and then
// the one that was sent longest ago: a list in the order of sending replaces the walk.
type flight struct {
	data  []byte
	count int
	left  int // how many slices are not acked
	acked Bits

	begun   bool      // a slice was sent
	fresh   int       // no slice below it is unsent
	lost    list      // lost slices, in the order of the calls of Lost
	waiting list      // slices that wait for their acks, in the order of sending
	slices  []sending // one for each slice of the chunk
}

// reset makes f the flight of another chunk.
func (f *flight) reset(data []byte, sliceSize int) {
	count := (len(data) + sliceSize - 1) / sliceSize
	f.data, f.count, f.left, f.acked, f.fresh = data, count, count, Bits{}, 0
	f.begun = false
	f.lost, f.waiting = list{none, none}, list{none, none}
	f.slices = slices.Grow(f.slices[:0], count)[:count] // most chunks have as many as the one before
	clear(f.slices)
}

// size returns the size of slice i in bytes.
func (f *flight) size(i, sliceSize int) int { return min(sliceSize, len(f.data)-i*sliceSize) }

// unsent returns the first slice that was never sent, or none.
func (f *flight) unsent() int {
	for f.fresh < f.count && f.slices[f.fresh].state != unsent {
		f.fresh++
	}
	if f.fresh == f.count {
		return none
	}
	return f.fresh
}

// ready returns the slice to send next, or none: first a lost one, then one
// that was never sent, then the one that was sent longest ago, if it is due.
func (f *flight) ready(r *resend, now time.Duration) int {
	if f.lost.head != none {
		return int(f.lost.head)
	}
	if i := f.unsent(); i != none {
		return i
	}
	if f.due(r) <= now {
		return int(f.waiting.head)
	}
	return none
}

// due returns when the slice that has waited longest for its ack must be sent
// again, or never. No slice after it is sent again earlier.
func (f *flight) due(r *resend) time.Duration {
	if f.waiting.head == none {
		return never
	}
	return r.due(&f.slices[f.waiting.head], f.left)
}

// longest returns when the slice that has waited longest for its ack was sent, or never.
func (f *flight) longest() time.Duration {
	if f.waiting.head == none {
		return never
	}
	return f.slices[f.waiting.head].sent
}

// send records that slice i is sent now. order increases with each sending.
func (f *flight) send(i int, now time.Duration, order uint64) {
	s := &f.slices[i]
	f.begun = true
	s.before = now
	if s.resent = s.state != unsent; s.resent {
		s.before = s.sent
	}
	f.remove(i)
	s.sent, s.order = now, order
	f.push(&f.waiting, i, waiting)
}

// lose records that slice i, which waits for its ack, will not get one.
func (f *flight) lose(i int) {
	f.remove(i)
	f.push(&f.lost, i, lost)
}

// ack adds a set to the acked slices, and returns how many are new. It never
// removes one: a bit is "like a fuse getting blown", the article says. It calls
// hear for each new slice before the slice becomes acked.
func (f *flight) ack(set Bits, hear func(i int)) (blown int) {
	for word := range set {
		for fresh := set[word] &^ f.acked[word]; fresh != 0; fresh &= fresh - 1 {
			i := word*64 + mathbits.TrailingZeros64(fresh)
			hear(i)
			f.remove(i)
			f.slices[i].state = acked
			blown++
		}
		f.acked[word] |= set[word]
	}
	f.left -= blown
	return blown
}

// push appends a slice that is in no list.
func (f *flight) push(l *list, i int, to state) {
	s := &f.slices[i]
	s.state, s.prev, s.next = to, l.tail, none
	if l.tail == none {
		l.head = int16(i)
	} else {
		f.slices[l.tail].next = int16(i)
	}
	l.tail = int16(i)
}

// remove removes a slice from the list it is in, if any.
func (f *flight) remove(i int) {
	s := &f.slices[i]
	l := &f.waiting
	switch s.state {
	case unsent, acked:
		return
	case lost:
		l = &f.lost
	}
	if s.prev == none {
		l.head = s.next
	} else {
		f.slices[s.prev].next = s.next
	}
	if s.next == none {
		l.tail = s.prev
	} else {
		f.slices[s.next].prev = s.prev
	}
}
