package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/pages"
)

// An inbox reassembles messages from slices, and restores missing slices from repair slices.
//
// The connection's account is charged for everything in the inbox: for content, which the peer has
// credit to send, and for the overhead of chunks. If the peer stays within its credit, we refuse a
// chunk only when the world's budget is exhausted. Even then, we never refuse the chunk that all
// others are waiting for.
type inbox struct {
	memory     chunkMemory
	acks       ackTimer
	restorer   restorer
	next       uint16   // ID of the next chunk to be delivered
	incomplete int      // number of chunks that have some of their slices, but not all
	messages   [][]byte // complete messages that haven't been taken yet, in order

	refused, malformed uint64 // see Stats
}

func newInbox(account Account, pace ackPace) inbox {
	return inbox{memory: chunkMemory{account: account}, acks: ackTimer{pace: pace}}
}

// addSlice handles a slice, and reports whether that completed a message.
func (in *inbox) addSlice(now time.Time, s chunk.Slice) (completed bool) {
	before := len(in.messages)
	in.insert(now, s)
	in.restore(now, s.ChunkID)
	return len(in.messages) > before
}

// addRepair handles a repair slice, and reports whether that completed a message.
func (in *inbox) addRepair(now time.Time, r repair) (completed bool) {
	if !in.awaits(r.id) {
		return false
	}
	before := len(in.messages)
	switch in.restorer.keep(r, in.memory.account) {
	case contradicts:
		in.malformed++
	case noRoom:
		in.refused++
	case kept:
		in.restore(now, r.id)
	}
	return len(in.messages) > before
}

// restore restores the missing slices of a chunk, if enough slices and repair slices have arrived.
// It is called after each slice as well as after each repair slice, since either may be the last
// one that we need.
func (in *inbox) restore(now time.Time, id uint16) {
	set := in.restorer.find(id)
	if set == nil {
		return
	}
	data, have := in.memory.partial(id)
	got := have.Acked.Count()
	switch {
	case !in.awaits(id), got == set.count:
		// The chunk is complete without the repair slices.
	case have.Count != 0 && have.Count != set.count:
		// The repair slices contradict the slices that arrived.
	case got+set.Have < set.count:
		return
	default:
		in.insertMissing(now, set, data, have)
	}
	in.restorer.drop(id, in.memory.account)
}

// insertMissing restores the slices that a chunk is missing, and inserts them. have says which
// slices are in data.
func (in *inbox) insertMissing(now time.Time, set *repairSet, data []byte, have chunk.Ack) {
	page := pages.Take()
	defer pages.Give(page)
	for i, shard := range set.restore(page, data, have) {
		if !have.Acked.Has(i) {
			in.restorer.restored++
			in.insert(now, chunk.Slice{ChunkID: set.id, Index: i, Count: set.count, Data: set.unpad(i, shard)})
		}
	}
}

// insert adds a slice to its chunk and collects the messages that it completes. It refuses the
// slice if there's no room for the chunk.
func (in *inbox) insert(now time.Time, s chunk.Slice) {
	if !in.ensureReceiver() {
		in.refused++
		return
	}
	_, have := in.memory.partial(s.ChunkID)
	if have.Count != 0 || !in.awaits(s.ChunkID) {
		// The slice needs no more memory: its chunk has begun to arrive, or we no longer want it.
		in.memory.insert(now, s)
	} else if in.insertFirst(now, s) {
		in.incomplete++
	} else {
		in.refused++
	}
	in.collect()
	if in.incomplete == 0 {
		in.memory.shrink()
	}
	if in.memory.hasUnacked() {
		in.acks.ask(now, in.incomplete)
	}
}

// ensureReceiver creates the receiver when the first slice arrives. It returns false if there's no
// room for it.
func (in *inbox) ensureReceiver() bool {
	if in.memory.ensureReceiver() {
		return true
	}
	in.dropRepairs()
	return in.memory.ensureReceiver()
}

// insertFirst inserts the first slice of a chunk, and reports whether there was room for the chunk.
// The account keeps room in reserve for the chunk that we are waiting for, because no later message
// can be delivered before it. For the same reason we drop repair slices to make room for that
// chunk.
func (in *inbox) insertFirst(now time.Time, s chunk.Slice) bool {
	ahead := int(s.ChunkID - in.next)
	awaited := ahead == 0 && len(in.messages) == 0
	if in.memory.insertFirst(now, s, ahead, awaited) {
		return true
	}
	if !awaited {
		return false
	}
	in.dropRepairs()
	return in.memory.insertFirst(now, s, ahead, awaited)
}

// collect moves complete messages to the end of messages, in order.
func (in *inbox) collect() {
	for {
		data, ok := in.memory.takeChunk()
		if !ok {
			return
		}
		in.next++
		in.incomplete--
		in.messages = append(in.messages, data)
	}
}

// dropRepairs frees all repair slices.
func (in *inbox) dropRepairs() { in.restorer.dropAll(in.memory.account) }

// awaits reports whether a chunk has not been delivered yet.
func (in *inbox) awaits(id uint16) bool { return id-in.next < Pipeline }

// nextAck takes the next ack that is due.
func (in *inbox) nextAck(now time.Time) (chunk.Ack, bool) {
	return in.acks.next(now, in.memory.receiver)
}

// ackAgain makes us ack a chunk again, because its latest ack was lost or not sent.
func (in *inbox) ackAgain(id uint16) {
	if r := in.memory.receiver; r != nil {
		r.Repeat(id)
		in.acks.draining = true
	}
}

// ackAllAgain makes us ack all incomplete chunks and the last delivered chunks again.
func (in *inbox) ackAllAgain() {
	if r := in.memory.receiver; r != nil {
		r.Restart()
		in.acks.draining = true
	}
}

// take returns the complete messages. The caller owns them until it passes them to release and then
// to recycle.
func (in *inbox) take() [][]byte {
	messages := in.messages
	in.messages = nil
	return messages
}

// release takes a message off the account. It may be called on any goroutine, because it uses only
// the account, which never changes.
func (in *inbox) release(message []byte) { in.memory.release(message) }

// recycle keeps the memory of released messages for reuse.
func (in *inbox) recycle(messages [][]byte) {
	for i, message := range messages {
		if cap(message) == pages.Size {
			pages.Give((*pages.Page)(message[:pages.Size]))
		}
		messages[i] = nil
	}
	if in.messages == nil {
		in.messages = messages[:0]
	}
}

// discard drops everything. It leaves the account's charge as it is.
func (in *inbox) discard() {
	in.memory.discard()
	in.acks = ackTimer{pace: in.acks.pace}
	in.restorer = restorer{restored: in.restorer.restored}
	in.messages, in.incomplete = nil, 0
}

// trim frees spare memory.
func (in *inbox) trim() {
	if len(in.messages) == 0 {
		in.messages = nil
	}
}
