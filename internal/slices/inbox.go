package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// inbox assembles messages from slices, and restores missing slices by repair slices.
//
// All that it holds is charged to the connection's account: content, for which there is credit, and what chunks take beyond that. A peer
// that keeps to its credit is refused a chunk only if the world's budget has no memory left, and never the one that is awaited.
type inbox struct {
	memory   chunkMemory
	acks     ackTimer
	restorer restorer
	read     uint16   // id of the next chunk to be handed out
	open     int      // chunks of which slices have come, but not all
	messages [][]byte // whole messages in order, not yet taken

	refused, malformed uint64 // see Stats
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

// restore makes the missing slices of a chunk when enough slices and repair slices have come. It is called after each slice as well: that
// may be the last one needed, or it completes the chunk, whose repair slices are then dropped.
func (b *inbox) restore(now time.Time, id uint16) (whole bool) {
	set := b.restorer.set(id)
	if set == nil {
		return false
	}
	data, have := b.memory.partial(id)
	got := have.Acked.Count()
	switch {
	case !b.misses(id), have.Count != 0 && have.Count != set.count, got == set.count:
		b.restorer.drop(id, b.memory.account)
		return false
	case got+set.Have < set.count:
		return false
	}
	defer b.restorer.drop(id, b.memory.account)
	if !b.restorer.equip(b.memory.account) {
		b.refused += uint64(set.Have)
		return false
	}
	for i, shard := range b.restorer.restore(set, data, have) {
		if !have.Acked.Has(i) {
			b.restorer.restored++
			s := chunk.Slice{ChunkID: id, Index: i, Count: set.count, Data: set.unpad(i, shard)}
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

// begin takes the first slice of a chunk, and reports whether there was room for the chunk. The account keeps room for the one that is
// awaited, without which no later message could be handed out.
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

// collect takes the next messages in order that are whole, and reports whether there was one.
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

// makeRoom gives up spare memory, and for an awaited chunk also repair slices, since the chunks that they repair come after it.
// TrimAfter would never pass: a slice that finds no room is sent again and again, and is no silence.
func (b *inbox) makeRoom(awaited bool) {
	b.trim()
	if awaited {
		b.restorer.dropAll(b.memory.account)
	}
}

// misses reports whether a chunk was not handed out yet.
func (b *inbox) misses(id uint16) bool { return id-b.read < Pipeline }

// nextAck returns the next ack that is due.
func (b *inbox) nextAck(now time.Time) (chunk.Ack, bool) { return b.acks.next(now, b.memory.receiver) }

// ackAgain makes an ack due for a chunk whose last ack was lost or never left.
func (b *inbox) ackAgain(id uint16) {
	if r := b.memory.receiver; r != nil {
		r.Repeat(id)
		b.acks.draining = true
	}
}

// ackAllAgain makes acks due for all chunks under way, and for those that were handed out last.
func (b *inbox) ackAllAgain() {
	if r := b.memory.receiver; r != nil {
		r.Restart()
		b.acks.draining = true
	}
}

// take returns the whole messages. The caller owns them until giveBack, and releases each before that.
func (b *inbox) take() [][]byte {
	whole := b.messages
	b.messages = nil
	return whole
}

// giveBack takes the memory of messages that were released, for later chunks.
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
