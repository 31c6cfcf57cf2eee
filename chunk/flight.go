package chunk

import (
	mathbits "math/bits"
	"slices"
	"time"
)

// none stands for no slice.
const none = -1

// A list is a doubly linked list of the slices of one flight, linked by index in flight.slices. A
// slice is in at most one list.
type list struct{ head, tail int16 }

// A sentSlice is the sender's record of one slice.
type sentSlice struct {
	sent       time.Duration // time of its last transmission
	before     time.Duration // time of the transmission before that; equal to sent if sent once
	order      uint64        // SenderStats.Slices when it was last sent
	prev, next int16         // neighbors in its list
	state      state
	resent     bool // sent more than once, so an ack doesn't tell which transmission arrived
}

// A state is the state of a slice at its sender.
type state uint8

const (
	unsent  state = iota
	waiting       // sent, and waiting for its ack
	lost          // reported by Lost, and not resent since
	acked
)

// A flight is a chunk in flight.
//
// The article moves a cursor around the slices and skips those that are acked or were sent too
// recently. We keep the slices in a list in the order in which they were sent instead, which is
// their order behind the cursor. Sending the slices that were never sent first, and then the one
// that was sent longest ago, therefore sends the same slices in the same order without a search.
type flight struct {
	data  []byte
	count int // number of slices
	left  int // number of unacked slices
	acked Bits

	begun      bool        // at least one slice was sent
	unsentFrom int         // slices before this index were sent or acked
	lost       list        // slices in state lost, in the order in which Lost reported them
	waiting    list        // slices in state waiting, in the order in which they were sent
	slices     []sentSlice // by index
}

// reset makes f the flight of a new chunk, and reuses its memory.
func (f *flight) reset(data []byte, sliceSize int) {
	count := (len(data) + sliceSize - 1) / sliceSize
	records := slices.Grow(f.slices[:0], count)[:count]
	clear(records)
	*f = flight{
		data:    data,
		count:   count,
		left:    count,
		lost:    list{none, none},
		waiting: list{none, none},
		slices:  records,
	}
}

// size returns the size of slice i in bytes.
func (f *flight) size(i, sliceSize int) int { return min(sliceSize, len(f.data)-i*sliceSize) }

// unsent returns the first slice that was never sent, or none.
func (f *flight) unsent() int {
	for f.unsentFrom < f.count && f.slices[f.unsentFrom].state != unsent {
		f.unsentFrom++
	}
	if f.unsentFrom == f.count {
		return none
	}
	return f.unsentFrom
}

// ready returns the slice to send next, or none: a lost slice, otherwise the first slice that was
// never sent, and otherwise the one that was sent longest ago if it is due.
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

// due returns when the slice that was sent longest ago must be resent, or never. No other slice of
// f is resent earlier.
func (f *flight) due(r *resend) time.Duration {
	if f.waiting.head == none {
		return never
	}
	return r.due(&f.slices[f.waiting.head], f.left)
}

// oldestSent returns when the slice that has waited longest for its ack was sent, or never if no
// slice is waiting.
func (f *flight) oldestSent() time.Duration {
	if f.waiting.head == none {
		return never
	}
	return f.slices[f.waiting.head].sent
}

// send records that slice i is sent now. order increases with each call.
func (f *flight) send(i int, now time.Duration, order uint64) {
	s := &f.slices[i]
	f.begun = true
	s.resent = s.state != unsent
	s.before = now
	if s.resent {
		s.before = s.sent
	}
	s.sent = now
	s.order = order
	f.remove(i)
	f.push(&f.waiting, i, waiting)
}

// lose records the loss of slice i, which must be waiting for its ack.
func (f *flight) lose(i int) {
	f.remove(i)
	f.push(&f.lost, i, lost)
}

// ack adds set to the acked slices and returns how many of them are new. For each of those, it
// calls onAcked while the slice is still in its former state.
//
// An acked slice stays acked. In the article's words, a bit is "like a fuse getting blown".
func (f *flight) ack(set Bits, onAcked func(i int)) (newly int) {
	for word := range set {
		for fresh := set[word] &^ f.acked[word]; fresh != 0; fresh &= fresh - 1 {
			i := word*64 + mathbits.TrailingZeros64(fresh)
			onAcked(i)
			f.remove(i)
			f.slices[i].state = acked
			newly++
		}
		f.acked[word] |= set[word]
	}
	f.left -= newly
	return newly
}

// push appends slice i to the list l and changes its state. The slice must not be in a list.
func (f *flight) push(l *list, i int, to state) {
	s := &f.slices[i]
	s.state = to
	s.prev, s.next = l.tail, none
	if l.tail == none {
		l.head = int16(i)
	} else {
		f.slices[l.tail].next = int16(i)
	}
	l.tail = int16(i)
}

// remove removes slice i from its list, if it is in one.
func (f *flight) remove(i int) {
	s := &f.slices[i]
	l := &f.waiting
	switch s.state {
	case unsent, acked:
		return // in no list
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
