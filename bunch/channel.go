package bunch

import (
	"slices"
	"time"
)

// A channel is the state of one channel in both directions. The owner's lock guards it,
// like its Conn.
type channel struct {
	number   uint64
	priority Priority
	ours     bool // this side opened it

	// Sending. The reliable buffer contains the sequences first to next-1.
	out         ring    // the reliable buffer
	ownSlots    []entry // the channel's own slots, while out has borrowed a larger ring
	first, next uint64  // sequences of the oldest entry and of the next one
	// Sequence of the next entry for placeFresh. Earlier entries were sent, at least in
	// part.
	fresh         uint64
	resend        queue[uint64]   // sequences with lost pieces
	unreliable    queue[datagram] // queued unreliable messages
	nextMessage   uint16          // number of the next unreliable message in parts to be sent
	openAcked     bool            // the peer has acknowledged all of the first message
	outClosed     bool            // this side has closed the channel
	queuedBytes   int             // bytes of messages that were never sent
	popped        runHead         // of the message whose first entry was acked and removed
	inResendQueue bool            // the channel is in its level's resend
	inFreshQueue  bool            // the channel is in its level's fresh
	watch         watch
	// The channel that must be acknowledged before this one sends anything (see
	// Conn.After). It is nil if there is none or its acknowledgement has arrived.
	earlier *channel
	later   *channel // the channel that has this one as its earlier; nil = none

	// Receiving. Sequences below expected were processed in order.
	in         parked      // entries that arrived early
	expected   uint64      // the sequence of the next entry to process
	run        run         // the long message that is being assembled
	opened     bool        // others may follow: opened by this side, or the opening message was delivered
	inClosed   bool        // the peer's close was processed
	lingers    bool        // closed, but charged to the peer until our answer is acknowledged
	newest     uint64      // last packet of the newest UnreliableSequenced message delivered
	assemblies []*assembly // its messages that arrive in parts, oldest first
}

// A runHead is the beginning of a message whose first entry was removed, for
// [Conn.Held].
type runHead struct {
	bytes [16]byte
	n     int
}

// watch holds the arguments of the last Conn.Watch while it is armed.
type watch struct {
	armed  bool
	out    int
	queued time.Duration
}

// outstanding returns the number of entries in the reliable buffer.
func (ch *channel) outstanding() int { return int(ch.next - ch.first) }

// runFrom counts the entries from n to the end of its run.
func (ch *channel) runFrom(n uint64) int {
	end := n
	for ch.out.at(end).flags&flagEnd == 0 {
		end++
	}
	return int(end-n) + 1
}

// hasFresh reports whether placeFresh has something to place.
func (ch *channel) hasFresh() bool { return ch.fresh < ch.next || ch.unreliable.len() > 0 }

// begunUnreliable returns 1 if the oldest unreliable message was sent only in part, and
// otherwise 0.
func (ch *channel) begunUnreliable() int {
	if ch.unreliable.len() > 0 && ch.unreliable.peek().part > 0 {
		return 1
	}
	return 0
}

// isBulk reports whether the channel's messages are bulk.
func (ch *channel) isBulk() bool { return ch.priority == Bulk && ch.number != 0 }

// ownEntries is the maximum number of slots that a channel keeps for itself, enough for a
// tick of play. A reliable buffer that needs more borrows one of the connection's rings
// until it is empty. A channel that sends a lot only now and then therefore does not keep a
// large ring.
const ownEntries = 8

// makePlace gives the reliable buffer room for one more entry.
func (ch *channel) makePlace(rings *spares[[]entry]) {
	room := len(ch.out.slots)
	if ch.outstanding() < room {
		return
	}
	var slots []entry
	if room >= ownEntries {
		slots = rings.take()
	}
	if len(slots) <= room {
		slots = make([]entry, max(1, 2*room))
	}
	old := ch.out.move(slots, ch.first, ch.next)
	if room == ownEntries {
		ch.ownSlots = old
	}
}

// returnRing returns the ring borrowed for the reliable buffer, which must be empty.
func (ch *channel) returnRing(rings *spares[[]entry]) {
	if len(ch.out.slots) > ownEntries {
		rings.put(ch.out.slots)
		ch.out.slots, ch.ownSlots = ch.ownSlots, nil
	}
}

// begun reports whether a message was sent only in part and the rest may follow. If held is
// true, only a reliable message counts.
func (ch *channel) begun(held bool) bool {
	if !held && ch.unreliable.len() > 0 && ch.unreliable.peek().part > 0 {
		return true
	}
	return ch.fresh < ch.next && ch.out.at(ch.fresh).flags&flagBegin == 0
}

// opening reports whether all reliable messages on a channel of this side were sent but the
// peer has not acknowledged the opening one. Tracked messages may follow from then on.
func (ch *channel) opening() bool {
	return ch.ours && !ch.openAcked && !ch.outClosed && ch.next > 0 && ch.fresh == ch.next
}

// owesAnswer reports whether the peer has acknowledged all of ch, which this side has
// closed, but has not answered the close.
func (ch *channel) owesAnswer() bool { return ch.outClosed && !ch.inClosed && ch.first == ch.next }

// partial returns the bytes of entry n that have arrived. known is false if its message was
// already delivered.
func (ch *channel) partial(n uint64) (s slot, known bool) {
	if n < ch.expected {
		i := len(ch.run.parts) - int(ch.expected-n)
		if !ch.run.open || i < 0 {
			return s, false
		}
		return slot{payload: ch.run.parts[i], state: full}, true
	}
	if i, parked := ch.in.find(n); parked {
		s = *ch.in.at(i)
	}
	return s, s.state != delivered
}

// assembling returns the assembly of the message that a part belongs to, or nil if there is
// none.
func (ch *channel) assembling(h header) *assembly {
	for _, a := range ch.assemblies {
		if a.is(h) {
			return a
		}
	}
	return nil
}

// A ring holds the entries of consecutive sequences.
type ring struct{ slots []entry } // the length is a power of two or 0

func (r *ring) at(sequence uint64) *entry { return &r.slots[sequence&uint64(len(r.slots)-1)] }

// move moves the entries from first to next-1 into slots, which must be empty, and returns
// the old slots, emptied.
func (r *ring) move(slots []entry, first, next uint64) []entry {
	old := *r
	r.slots = slots
	for n := first; n < next; n++ {
		*r.at(n) = *old.at(n)
	}
	clear(old.slots)
	return old.slots
}

// A queue is a first-in-first-out list that reuses its memory.
type queue[T any] struct {
	items []T
	head  int32
	slack int32 // consecutive resets after which little of the memory had been used
}

func (q *queue[T]) len() int { return len(q.items) - int(q.head) }
func (q *queue[T]) cap() int { return cap(q.items) }
func (q *queue[T]) peek() *T { return &q.items[q.head] }

// at returns the value at index i.
func (q *queue[T]) at(i int) T { return q.items[int(q.head)+i] }

func (q *queue[T]) push(v T) {
	q.compact()
	q.items = append(q.items, v)
}

// compact moves the items to the front if there is no room after them but more than half of
// the memory is free.
func (q *queue[T]) compact() {
	if len(q.items) == cap(q.items) && int(q.head) > len(q.items)/2 {
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
	if int(q.head) == len(q.items) {
		q.reset()
	}
	return v
}

// take removes the value at index i and returns it.
func (q *queue[T]) take(i int) T {
	items := q.items[q.head:]
	v := items[i]
	copy(items[1:i+1], items[:i])
	q.pop()
	return v
}

// reset empties the list. If the list is large and repeatedly used less than an eighth of
// its memory, reset frees that memory. It does not free it at once, because one tick in
// three may add many items and the others few.
func (q *queue[T]) reset() {
	switch {
	case cap(q.items) <= 64 || len(q.items) >= cap(q.items)/8:
		q.slack = 0
	case q.slack < maxSlack:
		q.slack++
	default:
		q.items, q.slack = nil, 0
	}
	q.items, q.head = q.items[:0], 0
}

// maxSlack is the number of consecutive resets that may leave the memory mostly unused
// before it is freed: two seconds of ticks.
const maxSlack = 64

// release frees the memory of an empty list.
func (q *queue[T]) release() {
	if q.len() == 0 {
		q.items, q.head = nil, 0
	}
}

// remove removes the items for which equal returns true.
func (q *queue[T]) remove(equal func(T) bool) {
	q.items = slices.DeleteFunc(q.items[q.head:], equal)
	q.head = 0
}

// insert inserts v after the first i values.
func (q *queue[T]) insert(i int, v T) {
	if i == 0 && q.head > 0 {
		q.head--
		q.items[q.head] = v
		return
	}
	q.compact()
	q.items = slices.Insert(q.items, int(q.head)+i, v)
}
