package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/pages"
)

// An inbox assembles messages from slices and restores missing slices from repair slices.
//
// Everything it holds is charged to the connection's account: content, for which there is
// credit, and what chunks take beyond their content. If a peer stays within its credit, a
// chunk is refused only when the world's budget has no memory left. The awaited chunk is
// never refused then.
type inbox struct {
	memory   chunkMemory
	acks     ackTimer
	restorer restorer
	read     uint16   // id of the next chunk to be delivered
	open     int      // incomplete chunks of which slices have arrived
	messages [][]byte // complete messages in order, not yet taken

	refused, malformed uint64 // see Stats
}

func newInbox(account Account, pace ackPace) inbox {
	return inbox{memory: chunkMemory{account: account}, acks: ackTimer{pace: pace}}
}

// slice handles a slice and reports whether a message is now complete.
func (in *inbox) slice(now time.Time, s chunk.Slice) (whole bool) {
	whole = in.add(now, s)
	return in.restore(now, s.ChunkID) || whole
}

// repair handles a repair slice and reports whether it completed a message.
func (in *inbox) repair(now time.Time, r repair) (whole bool) {
	if !in.misses(r.id) {
		return false
	}
	switch in.restorer.keep(r, in.memory.account) {
	case contradicts:
		in.malformed++
	case noRoom:
		in.refused++
	case kept:
		return in.restore(now, r.id)
	}
	return false
}

// restore restores the missing slices of a chunk if enough slices and repair slices have
// arrived.
//
// It also runs after each slice. That slice may be the last one needed, or it may complete
// the chunk, whose repair slices are then dropped.
func (in *inbox) restore(now time.Time, id uint16) (whole bool) {
	set := in.restorer.set(id)
	if set == nil {
		return false
	}
	data, have := in.memory.partial(id)
	got := have.Acked.Count()
	switch {
	case !in.misses(id), have.Count != 0 && have.Count != set.count, got == set.count:
		in.restorer.drop(id, in.memory.account)
		return false
	case got+set.Have < set.count:
		return false
	}
	defer in.restorer.drop(id, in.memory.account)
	page := pages.Take()
	defer pages.Give(page)
	for i, shard := range set.restore(page, data, have) {
		if !have.Acked.Has(i) {
			in.restorer.restored++
			s := chunk.Slice{ChunkID: id, Index: i, Count: set.count, Data: set.unpad(i, shard)}
			whole = in.add(now, s) || whole
		}
	}
	return whole
}

// add inserts a slice and reports whether a message is now complete.
func (in *inbox) add(now time.Time, s chunk.Slice) (whole bool) {
	if !in.equip() {
		in.refused++
		return false
	}
	_, have := in.memory.partial(s.ChunkID)
	switch begins := have.Count == 0 && in.misses(s.ChunkID); {
	case !begins:
		in.memory.receiver.Insert(now, s)
	case !in.begin(now, s):
		in.refused++
	}
	whole = in.collect()
	if _, due := in.memory.receiver.NextTimeout(); due {
		in.acks.ask(now, in.open)
	}
	return whole
}

// equip creates the receiver at the first slice and reports whether there was room.
func (in *inbox) equip() bool {
	if in.memory.equip() {
		return true
	}
	in.makeRoom()
	return in.memory.equip()
}

// begin inserts the first slice of a chunk and reports whether there was room for the chunk.
// The account reserves room for the awaited chunk, because no later message can be delivered
// without it.
func (in *inbox) begin(now time.Time, s chunk.Slice) bool {
	ahead := int(s.ChunkID - in.read)
	awaited := s.ChunkID == in.read && len(in.messages) == 0
	begun := in.memory.begin(now, s, ahead, awaited)
	if !begun && awaited {
		in.makeRoom()
		begun = in.memory.begin(now, s, ahead, awaited)
	}
	if begun {
		in.open++
	}
	return begun
}

// collect appends the next complete messages in order and reports whether there was one.
func (in *inbox) collect() (whole bool) {
	for {
		_, data, ok := in.memory.receiver.Chunk()
		if !ok {
			return whole
		}
		in.read++
		in.open--
		in.messages = append(in.messages, data)
		whole = true
	}
}

// makeRoom frees all repair slices to make room for an awaited chunk. The chunks that they
// would restore come after it.
func (in *inbox) makeRoom() { in.restorer.dropAll(in.memory.account) }

// misses reports whether a chunk is not delivered yet.
func (in *inbox) misses(id uint16) bool { return id-in.read < Pipeline }

// nextAck returns the next ack that is due.
func (in *inbox) nextAck(now time.Time) (chunk.Ack, bool) {
	return in.acks.next(now, in.memory.receiver)
}

// ackAgain makes an ack due for a chunk whose last ack was lost or not sent.
func (in *inbox) ackAgain(id uint16) {
	if r := in.memory.receiver; r != nil {
		r.Repeat(id)
		in.acks.draining = true
	}
}

// ackAllAgain makes acks due for all incomplete chunks and for the chunks delivered last.
func (in *inbox) ackAllAgain() {
	if r := in.memory.receiver; r != nil {
		r.Restart()
		in.acks.draining = true
	}
}

// take returns the complete messages. The caller owns them until giveBack and must release
// each message before calling it.
func (in *inbox) take() [][]byte {
	whole := in.messages
	in.messages = nil
	return whole
}

// giveBack takes back the memory of released messages.
func (in *inbox) giveBack(whole [][]byte) {
	for i, message := range whole {
		if cap(message) == pages.Size {
			pages.Give((*pages.Page)(message[:pages.Size]))
		}
		whole[i] = nil
	}
	if in.messages == nil {
		in.messages = whole[:0]
	}
}

// discard drops everything without changing the account's charge.
func (in *inbox) discard() {
	in.memory.receiver = nil
	in.memory.places = 0 // the account stays, because Release may be reading it
	in.acks = ackTimer{pace: in.acks.pace}
	in.restorer = restorer{restored: in.restorer.restored}
	in.messages, in.open = nil, 0
}

// trim frees spare memory.
func (in *inbox) trim() {
	if in.open == 0 {
		in.memory.narrow()
	}
	if len(in.messages) == 0 {
		in.messages = nil
	}
}
