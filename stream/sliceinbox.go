package stream

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

const (
	// sliceAckEvery slices bring an ack at once, and sliceAckDelay is the longest that one waits: an ack is small, and
	// quic-go, which acks every second packet, sends its own along with it.
	sliceAckEvery = 8
	sliceAckDelay = 2 * time.Millisecond
)

// sliceInbox puts slices together to messages and says when to ack. It is a machine without clock and lock.
//
// What it holds is charged to the connection's account: all that credit allows and what chunks take beyond it. A peer who
// keeps to that is refused nothing but what its world's budget has not got, and that comes in once it is waited for.
type sliceInbox struct {
	receiver *chunk.Receiver // nil before the first slice
	account  *account
	read     uint16   // id of the next chunk to be handed out
	open     int      // chunks under way
	spares   []int64  // memory that the receiver keeps for later chunks, the last of which it takes first
	messages [][]byte // in order, not yet taken

	ackEvery int           // slices bring an ack at once
	ackDelay time.Duration // is the longest that one waits
	asking   int           // slices since the last ack
	deadline time.Time     // of the next ack, while asking
	draining bool          // acks leave, one for each chunk that has news

	refused, malformed uint64
}

// add takes a slice, and reports whether a message has become whole.
func (b *sliceInbox) add(now time.Time, s chunk.Slice) (whole bool) {
	if b.receiver == nil && !b.equip() {
		b.refused++
		return false
	}
	_, _, known := b.receiver.Partial(s.ChunkID)
	if begins := !known && s.ChunkID-b.read < slicePipeline; begins && !b.begin(now, s) {
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
func (b *sliceInbox) equip() bool {
	if !b.account.record(receiverBytes) {
		return false
	}
	r, err := chunk.NewReceiver(sliceConfig())
	if err != nil {
		panic(err) // of a constant
	}
	b.receiver = r
	return true
}

// begin takes the first slice of a chunk, if there is room for the chunk. The one that is waited for has a room of its own,
// or nothing would come in behind it.
func (b *sliceInbox) begin(now time.Time, s chunk.Slice) bool {
	take := b.account.hold
	if s.ChunkID == b.read && len(b.messages) == 0 {
		take = b.account.await
	}
	if !take(chunkBytes(s.Count)) {
		return false
	}
	b.open++
	b.receiver.Insert(now, s)
	if n := len(b.spares); n > 0 {
		data, _, _ := b.receiver.Partial(s.ChunkID)
		b.account.mustBorrow(spareBytes(data, s.Count) - b.spares[n-1]) // no more than it was
		b.spares = b.spares[:n-1]
	}
	return true
}

// chunkBytes is the memory of a chunk of so many slices.
func chunkBytes(slices int) int64 { return allocated(int64(slices * sliceBytes)) }

// spareBytes is what the memory of a chunk is larger than so many slices need, because it served another before.
func spareBytes(data []byte, slices int) int64 {
	return max(0, allocated(int64(cap(data)))-chunkBytes(slices))
}

// release notes that a message is through, or that somebody else accounts for it.
func (b *sliceInbox) release(message []byte) {
	count := (len(message) + sliceBytes - 1) / sliceBytes
	b.account.drop(chunkBytes(count))
	b.account.repay(spareBytes(message, count))
}

// misses reports whether a chunk is still to be handed out.
func (b *sliceInbox) misses(id uint16) bool { return id-b.read < slicePipeline }

// partial returns the place of a chunk's slices and which of them are there; a Count of 0 says that none is.
func (b *sliceInbox) partial(id uint16) (data []byte, have chunk.Ack) {
	if b.receiver != nil {
		data, have, _ = b.receiver.Partial(id)
	}
	return data, have
}

// ask makes an ack due: at once when nothing more is on its way as far as this end knows.
func (b *sliceInbox) ask(now time.Time) {
	b.asking++
	switch {
	case b.asking >= b.ackEvery || b.open == 0:
		b.deadline = now
	case b.asking == 1:
		b.deadline = now.Add(b.ackDelay)
	}
}

// next returns the next ack that is due.
func (b *sliceInbox) next(now time.Time) (chunk.Ack, bool) {
	if !b.draining && (b.asking == 0 || now.Before(b.deadline)) {
		return chunk.Ack{}, false
	}
	b.asking = 0
	a, ok := b.receiver.NextAck(now)
	b.draining = ok
	return a, ok
}

// again has a chunk acked again, whose ack was lost or never left.
func (b *sliceInbox) again(id uint16) {
	if b.receiver != nil {
		b.receiver.Repeat(id)
		b.draining = true
	}
}

// repeat has all that was acked lately acked again.
func (b *sliceInbox) repeat() {
	if b.receiver != nil {
		b.receiver.Restart()
		b.draining = true
	}
}

// take returns the messages that are whole. They are the caller's until giveBack, who releases each.
func (b *sliceInbox) take() [][]byte {
	whole := b.messages
	b.messages = nil
	return whole
}

const (
	// spareChunks is of how many chunks the memory is kept for later ones.
	spareChunks = 8
	// receiverBytes is what a chunk.Receiver takes beside the memory of its chunks: records of 128 that come and of 128
	// that came.
	receiverBytes = 40 << 10
)

// giveBack takes the memory of messages that were released, for some of the chunks to come, but for what is more than a
// full part's.
func (b *sliceInbox) giveBack(whole [][]byte) {
	for i, m := range whole {
		memory := allocated(int64(cap(m)))
		if len(b.spares) < spareChunks && cap(m) <= slicePartSlices*sliceBytes && b.account.borrow(memory) {
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
func (b *sliceInbox) trim() {
	if b.receiver != nil {
		b.receiver.Trim()
		for _, memory := range b.spares {
			b.account.repay(memory)
		}
		b.spares = nil
	}
	if len(b.messages) == 0 {
		b.messages = nil
	}
}
