package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// inbox puts slices together to messages, mends what is missing, and says when to ack.
//
// What it holds is charged to the connection's account: all that credit allows and what chunks take beyond it. A peer who
// keeps to that is refused nothing but what its world's budget has not got, and that comes in once it is waited for.
type inbox struct {
	receiver *chunk.Receiver // nil before the first slice
	account  Account
	restorer restorer
	places   int      // records of chunks that the receiver has
	read     uint16   // id of the next chunk to be handed out
	open     int      // chunks under way
	spares   []int64  // memory that the receiver keeps for later chunks, the last of which it takes first
	messages [][]byte // in order, not yet taken

	// Acks.
	pace     ackPace
	asking   int       // slices since the last ack
	deadline time.Time // of the next ack, while asking
	draining bool      // acks leave, one for each chunk that has news

	refused, malformed uint64
}

// ackPace is how many slices bring an ack at once, and the longest that one waits.
type ackPace struct {
	every int
	delay time.Duration
}

var (
	// gatedAcks are small, and quic-go, which acks every second packet, sends its own along with them.
	gatedAcks = ackPace{every: 8, delay: ackDelay}
	// fatedAcks are for a carrier whose own feedback tells of single packets: one for a full part.
	fatedAcks = ackPace{every: PartSlices, delay: 20 * time.Millisecond}
)

// ackDelay is the longest that the peer waits with an ack on a path that tells no fates.
const ackDelay = 2 * time.Millisecond

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
	switch b.restorer.keep(r, b.account) {
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
	data, have := b.partial(id)
	got := have.Acked.Count()
	switch {
	case !b.misses(id), have.Count != 0 && have.Count != set.count, got == set.count:
		b.restorer.spare += uint64(set.have)
		b.restorer.drop(id, b.account)
		return false
	case got+set.have < set.count:
		return false
	}
	defer b.restorer.drop(id, b.account)
	if !b.restorer.equip(b.account) {
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
	if b.receiver == nil && !b.equip() {
		b.refused++
		return false
	}
	_, _, known := b.receiver.Partial(s.ChunkID)
	if begins := !known && s.ChunkID-b.read < Pipeline; begins && !b.begin(now, s) {
		b.refused++
		return false
	} else if !begins {
		b.receiver.Insert(now, s)
	}
	for {
		_, data, ok := b.receiver.Chunk()
		if !ok {
			break
		}
		b.read++
		b.open--
		b.messages = append(b.messages, data)
		whole = true
	}
	if _, due := b.receiver.NextTimeout(); due {
		b.ask(now)
	}
	return whole
}

// equip makes the receiver, if there is room for its records.
func (b *inbox) equip() bool {
	if !b.account.Borrow(ReceiverBytes, true) {
		b.makeRoom(true)
		if !b.account.Borrow(ReceiverBytes, true) {
			return false
		}
	}
	r, err := chunk.NewReceiver(config)
	if err != nil {
		panic(err) // of a constant
	}
	b.receiver, b.places = r, Places
	return true
}

// widen makes records for a chunk that is so far ahead, if there is room for them.
func (b *inbox) widen(ahead int) bool {
	if ahead < b.places || ahead >= Pipeline {
		return true
	}
	wider := b.places
	for wider <= ahead {
		wider *= 2
	}
	if !b.account.Borrow(int64(wider-b.places)*placeBytes, false) {
		return false
	}
	b.receiver.SetReceiveQueue(wider)
	b.places = wider
	return true
}

// narrow gives up the records of chunks far ahead, when none is under way.
func (b *inbox) narrow() {
	if b.open == 0 && b.places > Places {
		b.receiver.SetReceiveQueue(Places)
		b.account.Repay(int64(b.places-Places) * placeBytes)
		b.places = Places
	}
}

// begin takes the first slice of a chunk, if there is room for the chunk. The one that is waited for has a room of its own,
// or nothing would come in behind it.
func (b *inbox) begin(now time.Time, s chunk.Slice) bool {
	awaited := s.ChunkID == b.read && len(b.messages) == 0
	if !b.hold(ChunkBytes(s.Count), awaited) {
		return false
	}
	if !b.widen(int(s.ChunkID - b.read)) { // behind hold, which may have given up records to find room
		b.account.Drop(ChunkBytes(s.Count))
		return false
	}
	b.open++
	b.receiver.Insert(now, s)
	if n := len(b.spares); n > 0 {
		data, _, _ := b.receiver.Partial(s.ChunkID)
		b.account.Repay(b.spares[n-1] - spareBytes(data, s.Count)) // the chunk is charged for what the receiver took again
		b.spares = b.spares[:n-1]
	}
	return true
}

// hold charges a chunk.
func (b *inbox) hold(n int64, awaited bool) bool {
	if b.account.Hold(n, awaited) {
		return true
	}
	b.makeRoom(awaited)
	return b.account.Hold(n, awaited)
}

// makeRoom gives up spare memory. Waiting for TrimAfter is not enough: a slice that finds no room is sent again and again, which is
// no silence. For what is awaited it also gives up repair slices, since the chunks that they repair come in behind it.
func (b *inbox) makeRoom(awaited bool) {
	b.trim()
	if awaited {
		b.restorer.dropAll(b.account)
	}
}

// release notes that the caller is done with a message, or accounts for it elsewhere.
func (b *inbox) release(message []byte) {
	count := sliceCount(message)
	b.account.Drop(ChunkBytes(count))
	b.account.Repay(spareBytes(message, count))
}

// misses reports whether a chunk is still to be handed out.
func (b *inbox) misses(id uint16) bool { return id-b.read < Pipeline }

// partial returns the place of a chunk's slices and which of them are there; a Count of 0 says that none is.
func (b *inbox) partial(id uint16) (data []byte, have chunk.Ack) {
	if b.receiver != nil {
		data, have, _ = b.receiver.Partial(id)
	}
	return data, have
}

// ask makes an ack due: at once when nothing more is on its way as far as this end knows.
func (b *inbox) ask(now time.Time) {
	b.asking++
	switch {
	case b.asking >= b.pace.every || b.open == 0:
		b.deadline = now
	case b.asking == 1:
		b.deadline = now.Add(b.pace.delay)
	}
}

// next returns the next ack that is due.
func (b *inbox) next(now time.Time) (chunk.Ack, bool) {
	if !b.draining && (b.asking == 0 || now.Before(b.deadline)) {
		return chunk.Ack{}, false
	}
	b.asking = 0
	a, ok := b.receiver.NextAck(now)
	b.draining = ok
	return a, ok
}

// again has a chunk acked again, whose ack was lost or never left.
func (b *inbox) again(id uint16) {
	if b.receiver != nil {
		b.receiver.Repeat(id)
		b.draining = true
	}
}

// repeat has all that was acked lately acked again.
func (b *inbox) repeat() {
	if b.receiver != nil {
		b.receiver.Restart()
		b.draining = true
	}
}

// take returns the messages that are whole. They are the caller's until giveBack, who releases each.
func (b *inbox) take() [][]byte {
	whole := b.messages
	b.messages = nil
	return whole
}

const (
	// spareChunks is of how many chunks the memory is kept for later ones.
	spareChunks = 8
	// ReceiverBytes is what a chunk.Receiver takes beside the memory of its chunks: records of 256 that come and of 1,024
	// that came.
	ReceiverBytes = 52 << 10
	// placeBytes is the record of one more that comes, and its place among those whose memory is kept.
	placeBytes = 128
)

// giveBack takes the memory of messages that were released, for some of the chunks to come, but for what is more than a
// full part's.
func (b *inbox) giveBack(whole [][]byte) {
	for i, m := range whole {
		memory := Allocated(int64(cap(m)))
		if len(b.spares) < spareChunks && cap(m) <= PartSlices*Size && b.account.Borrow(memory, false) {
			b.spares = append(b.spares, memory)
			b.receiver.Recycle(m)
		}
		whole[i] = nil
	}
	if b.messages == nil {
		b.messages = whole[:0]
	}
}

// trim gives up spare memory.
func (b *inbox) trim() {
	if b.receiver != nil {
		b.receiver.Trim()
		b.narrow()
		for _, memory := range b.spares {
			b.account.Repay(memory)
		}
		b.spares = nil
	}
	b.restorer.trim(b.account)
	if len(b.messages) == 0 {
		b.messages = nil
	}
}
