package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// inbox puts slices together to messages, and restores what is missing of them.
//
// What it holds is charged to the connection's account: all that credit allows and what chunks take beyond it. A peer who
// keeps to that is refused nothing but what its world's budget has not got, and that comes in once it is waited for.
type inbox struct {
	memory   chunkMemory
	acks     ackTimer
	restorer restorer
	read     uint16   // id of the next chunk to be handed out
	open     int      // chunks under way
	messages [][]byte // in order, not yet taken

	refused, malformed uint64
}

func newInbox(account Account, pace ackPace) inbox {
	return inbox{memory: chunkMemory{account: account}, acks: ackTimer{pace: pace}}
}

// slice takes a slice, and reports whether a message has become whole.
func (b *inbox) slice(now time.Time, s chunk.Slice) (whole bool) {
	whole = b.add(now, s)
	return b.restore(now, s.ChunkID) || whole
}

// repair takes a repair slice, and reports whether it made a message whole.
func (b *inbox) repair(now time.Time, r repair) (whole bool) {
	if !b.misses(r.id) {
		b.restorer.spare++
		return false
	}
	switch b.restorer.keep(r, b.memory.account) {
	case contradicts:
		b.malformed++
	case noRoom:
		b.refused++
	case kept:
		return b.restore(now, r.id)
	}
	return false
}

// restore makes the slices that a chunk misses, when enough others are there. It is asked after each slice, too, for that may be
// the one that was missing, and when all are there the repair slices are of no use.
func (b *inbox) restore(now time.Time, id uint16) (whole bool) {
	set := b.restorer.set(id)
	if set == nil {
		return false
	}
	data, have := b.memory.partial(id)
	got := have.Acked.Count()
	switch {
	case !b.misses(id), have.Count != 0 && have.Count != set.count, got == set.count:
		b.restorer.spare += uint64(set.have)
		b.restorer.drop(id, b.memory.account)
		return false
	case got+set.have < set.count:
		return false
	}
	defer b.restorer.drop(id, b.memory.account)
	if !b.restorer.equip(b.memory.account) {
		b.refused += uint64(set.have)
		return false
	}
	shards, ok := b.restorer.restore(set, data, have)
	if !ok {
		return false
	}
	for i := range set.count {
		if !have.Acked.Has(i) {
			b.restorer.restored++
			s := chunk.Slice{ChunkID: id, Index: i, Count: set.count, Data: set.cut(i, shards[i])}
			whole = b.add(now, s) || whole
		}
	}
	return whole
}

// add puts a slice in its place, and reports whether a message has become whole.
func (b *inbox) add(now time.Time, s chunk.Slice) (whole bool) {
	if !b.equip() {
		b.refused++
		return false
	}
	_, have := b.memory.partial(s.ChunkID)
	switch begins := have.Count == 0 && b.misses(s.ChunkID); {
	case !begins:
		b.memory.receiver.Insert(now, s)
	case !b.begin(now, s):
		b.refused++
	}
	whole = b.collect()
	if _, due := b.memory.receiver.NextTimeout(); due {
		b.acks.ask(now, b.open)
	}
	return whole
}

// equip makes the receiver with the first slice, and reports whether there was room.
func (b *inbox) equip() bool {
	if b.memory.equip() {
		return true
	}
	b.makeRoom(true)
	return b.memory.equip()
}

// begin takes the first slice of a chunk, and reports whether there was room for the chunk. The one that is waited for has a room of
// its own, or nothing would come in behind it.
func (b *inbox) begin(now time.Time, s chunk.Slice) bool {
	ahead, awaited := int(s.ChunkID-b.read), s.ChunkID == b.read && len(b.messages) == 0
	if !b.memory.begin(now, s, ahead, awaited) {
		b.makeRoom(awaited)
		if !b.memory.begin(now, s, ahead, awaited) {
			return false
		}
	}
	b.open++
	return true
}

// collect takes the messages that are whole and next, and reports whether there was one.
func (b *inbox) collect() (whole bool) {
	for {
		_, data, ok := b.memory.receiver.Chunk()
		if !ok {
			return whole
		}
		b.read++
		b.open--
		b.messages = append(b.messages, data)
		whole = true
	}
}

// makeRoom gives up spare memory. Waiting for TrimAfter is not enough: a slice that finds no room is sent again and again, which is
// no silence. For what is awaited it also gives up repair slices, since the chunks that they repair come in behind it.
func (b *inbox) makeRoom(awaited bool) {
	b.trim()
	if awaited {
		b.restorer.dropAll(b.memory.account)
	}
}

// misses reports whether a chunk is still to be handed out.
func (b *inbox) misses(id uint16) bool { return id-b.read < Pipeline }

// nextAck returns the next ack that is due.
func (b *inbox) nextAck(now time.Time) (chunk.Ack, bool) { return b.acks.next(now, b.memory.receiver) }

// ackAgain has a chunk acked again, whose ack was lost or never left.
func (b *inbox) ackAgain(id uint16) {
	if r := b.memory.receiver; r != nil {
		b.acks.ackAgain(id, r)
	}
}

// ackAllAgain has all acked again that was acked lately.
func (b *inbox) ackAllAgain() {
	if r := b.memory.receiver; r != nil {
		b.acks.ackAllAgain(r)
	}
}

// take returns the messages that are whole. They are the caller's until giveBack, who releases each.
func (b *inbox) take() [][]byte {
	whole := b.messages
	b.messages = nil
	return whole
}

// giveBack takes the memory of messages that were released, for some of the chunks to come.
func (b *inbox) giveBack(whole [][]byte) {
	for i, message := range whole {
		b.memory.giveBack(message)
		whole[i] = nil
	}
	if b.messages == nil {
		b.messages = whole[:0]
	}
}

// trim gives up spare memory.
func (b *inbox) trim() {
	b.memory.trim(b.open)
	b.restorer.trim(b.memory.account)
	if len(b.messages) == 0 {
		b.messages = nil
	}
}
