package bunch

import (
	"slices"
	"time"
)

// channel is one channel's state in both directions.
type channel struct {
	number   uint64
	priority Priority
	ours     bool // this side opened it

	// Sending. Sequences first to next-1 are in the reliable buffer; fresh is the first not wholly sent once.
	out           ring[entry]
	first, next   uint64
	fresh         uint64
	resend        queue[uint64] // sequences with lost pieces
	unreliable    queue[datagram]
	message       uint16 // number of the next unreliable message in parts to leave
	openAcked     bool   // the peer has acknowledged all of the first message
	outClosed     bool
	queuedBytes   int     // not yet in a packet, resends left aside
	popped        runHead // of the run whose first entry was acked and popped
	inResendQueue bool
	inFreshQueue  bool
	watch         watch
	earlier       *channel // closed; nothing of this one leaves before all of it is acknowledged; nil once it is
	later         *channel // the one whose earlier this is

	// Receiving. Sequences below expected were processed in order; what came early is parked.
	in         parked
	expected   uint64
	run        run
	opened     bool // this side opened it, or the message that opens it was handed out: others may follow
	inClosed   bool
	lingers    bool   // the peer closed it, and pays for it until our answer is acknowledged
	newest     uint64 // the last packet of the newest UnreliableSequenced message handed out
	assemblies int    // of unreliable messages in parts
}

// runHead is the beginning of a message whose first entry is gone, so that [Conn.Held] can still name it.
type runHead struct {
	bytes [16]byte
	n     int
}

// watch is one call of Conn.Watch that has not fired yet.
type watch struct {
	armed  bool
	out    int
	queued time.Duration
}

func (ch *channel) outstanding() int { return int(ch.next - ch.first) }

// hasFresh reports whether something waits that was never sent.
func (ch *channel) hasFresh() bool { return ch.fresh < ch.next || ch.unreliable.len() > 0 }

// begun reports whether a part of a message has left and the next may follow; held says that it may not, of an unreliable one.
func (ch *channel) begun(held bool) bool {
	if !held && ch.unreliable.len() > 0 && ch.unreliable.peek().part > 0 {
		return true
	}
	return ch.fresh < ch.next && ch.out.at(ch.fresh).flags&flagBegin == 0
}

// ring holds values of consecutive numbers; it grows as the numbers spread.
type ring[T any] struct{ slots []T }

func (r *ring[T]) at(n uint64) *T { return &r.slots[n&uint64(len(r.slots)-1)] }

// cover makes room for the numbers from first to last.
func (r *ring[T]) cover(first, last uint64) {
	size := len(r.slots)
	if uint64(size) > last-first {
		return
	}
	grown := max(1, size)
	for uint64(grown) <= last-first {
		grown *= 2
	}
	old := *r
	r.slots = make([]T, grown)
	for n := first; n < first+uint64(size); n++ {
		*r.at(n) = *old.at(n)
	}
}

// queue is a first-in-first-out list that reuses its memory.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }
func (q *queue[T]) peek() *T { return &q.items[q.head] }

func (q *queue[T]) push(v T) {
	q.compact()
	q.items = append(q.items, v)
}

// compact moves the items to the front when they would grow beyond the memory though half of it is free.
func (q *queue[T]) compact() {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

func (q *queue[T]) pop() T {
	var zero T
	v := q.items[q.head]
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.reset()
	}
	return v
}

// reset empties the list. One that held few of what it has room for gives that back.
func (q *queue[T]) reset() {
	if cap(q.items) > 64 && len(q.items) < cap(q.items)/8 {
		q.items = nil
	}
	q.items, q.head = q.items[:0], 0
}

// remove takes out the items that equal says.
func (q *queue[T]) remove(equal func(T) bool) {
	q.items = slices.DeleteFunc(q.items[q.head:], equal)
	q.head = 0
}

// insert puts v behind the first i values.
func (q *queue[T]) insert(i int, v T) {
	switch {
	case i == q.len():
		q.push(v)
	case i == 0:
		q.unpop(v)
	default:
		q.compact()
		q.items = slices.Insert(q.items, q.head+i, v)
	}
}

// unpop puts v back to the head.
func (q *queue[T]) unpop(v T) {
	if q.head > 0 {
		q.head--
		q.items[q.head] = v
		return
	}
	q.items = append(q.items, v)
	copy(q.items[1:], q.items)
	q.items[0] = v
}
