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
	memory   chunkMemory
	acks     ackTimer
	restorer restorer
	read     uint16   // ID of the next chunk to be delivered
	open     int      // number of chunks that have begun to arrive and aren't delivered yet
	messages [][]byte // complete messages that haven't been taken yet, in order

	refused, malformed uint64 // see Stats
}

func newInbox(account Account, pace ackPace) inbox {
	return inbox{memory: chunkMemory{account: account}, acks: ackTimer{pace: pace}}
}

// slice handles a slice, and reports whether that completed a message.
func (in *inbox) slice(now time.Time, s chunk.Slice) (whole bool) {
	whole = in.add(now, s)
	return in.restore(now, s.ChunkID) || whole
}

// repair handles a repair slice, and reports whether that completed a message.
func (in *inbox) repair(now time.Time, r repair) (whole bool) {
	if !in.misses(r.id) {
		// We have delivered this chunk already.
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

// restore restores the missing slices of a chunk, if enough slices and repair slices have arrived.
// It reports whether that completed a message.
//
// It is called after each slice as well as after each repair slice, since either may be the last
// one that we need.
func (in *inbox) restore(now time.Time, id uint16) (whole bool) {
	set := in.restorer.set(id)
	if set == nil {
		return false
	}
	data, have := in.memory.partial(id)
	got := have.Acked.Count()
	switch {
	case !in.misses(id), have.Count != 0 && have.Count != set.count, got == set.count:
		// The repair slices are no longer useful, or contradict the slices that have arrived.
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

// add inserts a slice, and reports whether that completed a message.
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
		// There's no room for another chunk.
		in.refused++
	}
	whole = in.collect()
	if _, due := in.memory.receiver.NextTimeout(); due {
		in.acks.ask(now, in.open)
	}
	return whole
}

// equip creates the receiver when the first slice arrives. It returns false if there's no room
// for it.
func (in *inbox) equip() bool {
	if in.memory.equip() {
		return true
	}
	in.makeRoom()
	return in.memory.equip()
}

// begin inserts the first slice of a chunk, and reports whether there was room for the chunk. The
// account keeps room in reserve for the chunk that we are waiting for, because no later message can
// be delivered before it.
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

// collect moves complete messages to the end of messages, in order. It reports whether there
// were any.
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

// makeRoom frees all repair slices. We can do without them, because the chunk that needs room comes
// before any chunk that they might restore.
func (in *inbox) makeRoom() { in.restorer.dropAll(in.memory.account) }

// misses reports whether a chunk is still to be delivered.
func (in *inbox) misses(id uint16) bool { return id-in.read < Pipeline }

// nextAck returns the next ack that is due.
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

// take returns the complete messages. They belong to the caller until it calls giveBack. Before
// that, the caller must release them.
func (in *inbox) take() [][]byte {
	whole := in.messages
	in.messages = nil
	return whole
}

// giveBack takes back the memory of messages that were released.
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

// discard drops everything. It leaves the account's charge as it is.
func (in *inbox) discard() {
	in.memory.receiver = nil
	in.memory.places = 0 // keep the account, because Release may be reading it
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
