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
// What it holds is bounded by its room, which is counted in whole slices: all that credit allows and what chunks take beyond
// it, so that nothing of a peer who keeps to that is ever refused.
type sliceInbox struct {
	receiver *chunk.Receiver // nil before the first slice
	room     *budget         // less the slices of chunks under way and of messages
	read     uint16          // id of the next chunk to be handed out
	open     int             // chunks under way
	messages [][]byte        // in order, not yet taken

	ackEvery int           // slices bring an ack at once
	ackDelay time.Duration // is the longest that one waits
	asking   int           // slices since the last ack
	deadline time.Time     // of the next ack, while asking
	draining bool          // acks leave, one for each chunk that has news

	refused, malformed uint64
}

// add takes a slice, and reports whether a message has become whole.
func (b *sliceInbox) add(now time.Time, s chunk.Slice) (whole bool) {
	if b.receiver == nil {
		b.receiver = newSliceReceiver()
	}
	_, _, known := b.receiver.Partial(s.ChunkID)
	if !known && s.ChunkID-b.read < slicePipeline {
		if !b.reserve(int64(s.Count*sliceBytes), s.ChunkID == b.read && len(b.messages) == 0) {
			b.refused++
			return false
		}
		b.open++
	}
	b.receiver.Insert(now, s)
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

func newSliceReceiver() *chunk.Receiver {
	r, err := chunk.NewReceiver(sliceConfig())
	if err != nil {
		panic(err) // of a constant
	}
	return r
}

// reserve makes room for a chunk. The one that is waited for has to come in, or nothing would.
func (b *sliceInbox) reserve(size int64, waited bool) bool {
	if waited {
		b.room.give(-size)
		return true
	}
	return b.room.take(size)
}

// sliceSpan is the room of all slices of a chunk.
func sliceSpan(size int) int { return (size + sliceBytes - 1) / sliceBytes * sliceBytes }

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

// take returns the messages that are whole. They are the caller's until giveBack.
func (b *sliceInbox) take() [][]byte {
	whole := b.messages
	b.messages = nil
	for _, m := range whole {
		b.room.give(int64(sliceSpan(len(m))))
	}
	return whole
}

// spareChunks is of how many chunks the memory is kept for later ones, each time.
const spareChunks = 8

// giveBack takes the memory of messages that are through, but for what is more than a full part's: it may serve a chunk
// for which less room was made.
func (b *sliceInbox) giveBack(whole [][]byte) {
	for i, m := range whole {
		if i < spareChunks && cap(m) <= slicePartSlices*sliceBytes {
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
	}
	if len(b.messages) == 0 {
		b.messages = nil
	}
}
