package bunch

import (
	"slices"
	"time"
)

// A channel is the state of one channel, in both directions. Like the rest of its Conn, it is
// guarded by the owner's lock.
type channel struct {
	number   uint64
	priority Priority
	ours     bool // this side opened it

	// The reliable buffer holds the entries first to next-1, in slots of out. All entries
	// before firstUnsent have been sent, at least in part.
	out         ring
	first       uint64
	firstUnsent uint64
	next        uint64
	resend      queue[uint64] // sequences of entries with lost pieces
	ownSlots    []entry       // the channel's own slots while it has borrowed a larger ring
	ackedHead   runHead       // beginning of a message whose first entry was acked and freed

	// Sending.
	unreliable    queue[unreliableMessage] // messages not sent yet, or only in part
	nextMessage   uint16                   // number of the next unreliable message sent in parts
	openAcked     bool                     // the peer has acknowledged all of the first message
	outClosed     bool                     // this side has closed the channel
	queuedBytes   int                      // bytes of messages that were never sent
	inResendQueue bool                     // the channel is in its level's resend
	inUnsentQueue bool                     // the channel is in its level's unsent
	watch         watch

	// The order of channels (see Conn.After), or nil.
	predecessor *channel // must be acknowledged before this one sends anything
	successor   *channel // the channel whose predecessor this is

	// Receiving reliable messages.
	in       parked // entries that arrived early or only in part
	expected uint64 // sequence of the next entry to process
	run      run    // the long message that is being assembled
	opened   bool   // we opened it, or the peer's opening message was delivered
	inClosed bool   // the peer's close was processed
	lingers  bool   // both sides closed it, but the peer is charged for it until our close is acked

	// Receiving unreliable messages.
	newest     uint64      // last packet of the newest UnreliableSequenced message delivered
	assemblies []*assembly // messages that have arrived only in part, oldest first
}

// A runHead is the beginning of a long message whose first entry was freed, for Conn.Held.
type runHead struct {
	bytes [16]byte
	n     int // bytes in use
}

// A watch holds the arguments of the last call to Conn.Watch. It's armed until it fires.
type watch struct {
	armed  bool
	out    int
	queued time.Duration
}

// outstanding returns the number of entries of the reliable buffer that are in use.
func (ch *channel) outstanding() int { return int(ch.next - ch.first) }

// runFrom returns the number of entries from n to the end of its run.
func (ch *channel) runFrom(n uint64) int {
	end := n
	for ch.out.at(end).flags&flagEnd == 0 {
		end++
	}
	return int(end-n) + 1
}

// hasUnsent reports whether placeUnsent has anything to send.
func (ch *channel) hasUnsent() bool { return ch.firstUnsent < ch.next || ch.unreliable.len() > 0 }

// firstDroppable returns the index of the oldest unreliable message that may be dropped to make
// room. A message that has been sent in part may not be dropped.
func (ch *channel) firstDroppable() int {
	if ch.unreliable.len() > 0 && ch.unreliable.peek().part > 0 {
		return 1
	}
	return 0
}

// isBulk reports whether the channel carries bulk, which is what transfers send.
func (ch *channel) isBulk() bool { return ch.priority == Bulk && ch.number != 0 }

// isPlay reports whether the channel carries play, which is the game's own traffic.
func (ch *channel) isPlay() bool { return ch.priority != Bulk && ch.number != 0 }

// memory returns the number of bytes that the entries of the reliable buffer hold.
func (ch *channel) memory() (bytes int) {
	for n := ch.first; n < ch.next; n++ {
		bytes += ch.out.at(n).memory()
	}
	return bytes
}

// ownEntries is the maximum number of slots that a channel may keep for itself. It's enough
// for a tick of play.
//
// A channel whose reliable buffer needs more slots borrows one of the connection's rings until
// the buffer is empty, so that a channel that rarely sends a lot doesn't tie up a large ring.
const ownEntries = 8

// ensureSlot makes sure that the reliable buffer has a slot for one more entry.
func (ch *channel) ensureSlot(rings *spares[[]entry]) {
	size := len(ch.out.slots)
	if ch.outstanding() < size {
		return
	}
	var slots []entry
	if size >= ownEntries {
		slots = rings.take()
	}
	if len(slots) <= size {
		slots = make([]entry, max(1, 2*size))
	}
	old := ch.out.move(slots, ch.first, ch.next)
	if size == ownEntries {
		ch.ownSlots = old
	}
}

// returnRing returns a borrowed ring. The reliable buffer must be empty.
func (ch *channel) returnRing(rings *spares[[]entry]) {
	if len(ch.out.slots) > ownEntries {
		rings.put(ch.out.slots)
		ch.out.slots, ch.ownSlots = ch.ownSlots, nil
	}
}

// midMessage reports whether a message has been sent only in part and the rest may be sent now.
// unreliableHeld is true if the owner holds back unreliable messages.
func (ch *channel) midMessage(unreliableHeld bool) bool {
	if !unreliableHeld && ch.unreliable.len() > 0 && ch.unreliable.peek().part > 0 {
		return true
	}
	return ch.firstUnsent < ch.next && ch.out.at(ch.firstUnsent).flags&flagBegin == 0
}

// opening reports whether we opened the channel and have sent all reliable messages on it, but
// the peer hasn't acknowledged the first one yet. Tracked messages may follow them right away.
func (ch *channel) opening() bool {
	return ch.ours && !ch.openAcked && !ch.outClosed && ch.next > 0 && ch.firstUnsent == ch.next
}

// awaitsAnswer reports whether the peer has acknowledged everything on the channel, including
// our close, but hasn't answered the close.
func (ch *channel) awaitsAnswer() bool { return ch.outClosed && !ch.inClosed && ch.first == ch.next }

// partial returns what has arrived of entry n. known is false if the entry's message was
// delivered, so that we no longer have it.
func (ch *channel) partial(n uint64) (s slot, known bool) {
	if n < ch.expected {
		// The entry was processed. We still have it if its message, the run, is incomplete.
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

// assembling returns the assembly that a part belongs to, or nil if it's the first part of its
// message to arrive.
func (ch *channel) assembling(h header) *assembly {
	for _, a := range ch.assemblies {
		if a.matches(h) {
			return a
		}
	}
	return nil
}

// A ring holds entries with consecutive sequences. The number of slots is 0 or a power of two.
type ring struct{ slots []entry }

func (r *ring) at(sequence uint64) *entry { return &r.slots[sequence&uint64(len(r.slots)-1)] }

// move moves the entries first to next-1 to other slots, which must be empty. It returns the
// old slots, empty as well.
func (r *ring) move(slots []entry, first, next uint64) []entry {
	old := *r
	r.slots = slots
	for n := first; n < next; n++ {
		*r.at(n) = *old.at(n)
	}
	clear(old.slots)
	return old.slots
}

// A queue is a first-in, first-out queue that reuses its memory.
type queue[T any] struct {
	items []T
	head  int32 // index of the oldest item
	slack int32 // consecutive resets that found most of the memory unused
}

func (q *queue[T]) len() int { return len(q.items) - int(q.head) }
func (q *queue[T]) cap() int { return cap(q.items) }
func (q *queue[T]) peek() *T { return &q.items[q.head] }

// at returns the item at index i, where 0 is the oldest.
func (q *queue[T]) at(i int) T { return q.items[int(q.head)+i] }

func (q *queue[T]) push(v T) {
	q.compact()
	q.items = append(q.items, v)
}

// compact moves the items to the front of the memory if there's no room behind them, although more
// than half of the memory is unused.
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

// take removes the item at index i and returns it.
func (q *queue[T]) take(i int) T {
	items := q.items[q.head:]
	v := items[i]
	copy(items[1:i+1], items[:i])
	q.pop()
	return v
}

// reset empties the queue.
//
// If most of a large queue's memory stays unused, reset eventually frees it. It doesn't do so
// at once, because a tick that adds many items may be followed by a few that don't.
func (q *queue[T]) reset() {
	switch {
	case cap(q.items) <= smallQueue || len(q.items) >= cap(q.items)/8:
		q.slack = 0
	case q.slack < maxSlack:
		q.slack++
	default:
		q.items, q.slack = nil, 0
	}
	q.items, q.head = q.items[:0], 0
}

const (
	// smallQueue is the number of items up to which a queue keeps its memory. The exact value isn't
	// critical, since that many items take no more than a few KiB.
	smallQueue = 64

	// maxSlack is the number of consecutive resets that may find most of the memory unused before
	// it's freed. It amounts to two seconds of ticks.
	maxSlack = 64
)

// hasSpare reports whether there's memory for release to free.
func (q *queue[T]) hasSpare() bool { return q.len() == 0 && q.cap() > 0 }

// release frees the memory, provided that the queue is empty.
func (q *queue[T]) release() {
	if q.len() == 0 {
		q.items, q.head = nil, 0
	}
}

// remove removes the items that match.
func (q *queue[T]) remove(match func(T) bool) {
	q.items = slices.DeleteFunc(q.items[q.head:], match)
	q.head = 0
}

// insert inserts an item at index i.
func (q *queue[T]) insert(i int, v T) {
	if i == 0 && q.head > 0 {
		q.head--
		q.items[q.head] = v
		return
	}
	q.compact()
	q.items = slices.Insert(q.items, int(q.head)+i, v)
}
