package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/pages"
)

// A chunkMemory charges a receiver's records and chunks to the connection's account. If there's no
// room for a chunk, it is neither stored nor charged.
type chunkMemory struct {
	account  Account
	receiver *chunk.Receiver // nil before the first slice
	places   int             // number of chunks for which the receiver has records
}

const (
	// ReceiverBytes is the memory that a chunk.Receiver uses, excluding its chunks. It holds the
	// records of Places chunks, and of the last 1,024 chunks that were delivered.
	ReceiverBytes = 52 << 10

	// placeBytes is the memory for each further place: a chunk's record, and an entry in the list
	// of memory for later chunks.
	placeBytes = 128
)

// ensureReceiver creates the receiver if there is none, and reports whether there was room for its
// records.
func (c *chunkMemory) ensureReceiver() bool {
	if c.receiver != nil {
		return true
	}
	if !c.account.Borrow(ReceiverBytes, true) {
		return false
	}
	r, err := chunk.NewReceiver(config)
	if err != nil {
		panic(err) // never: config is valid
	}
	c.receiver, c.places = r, Places
	return true
}

// insertFirst inserts the first slice of a chunk, and reports whether there was room for the chunk.
// ahead is the number of chunks that must be delivered before it. awaited is set if no later
// message can be delivered before this chunk has arrived.
//
// A chunk that needs exactly as much memory as a page, such as a full part, is stored in a page,
// which inbox.recycle returns.
func (c *chunkMemory) insertFirst(now time.Time, s chunk.Slice, ahead int, awaited bool) bool {
	if !c.charge(s.Count, ahead, awaited) {
		return false
	}
	if ChunkBytes(s.Count) == pages.Size {
		c.receiver.Recycle(pages.Take()[:]) // Insert uses this memory
	}
	c.receiver.Insert(now, s)
	return true
}

// charge charges the account for a chunk's content, and for any records that must be added up to
// the chunk's own.
func (c *chunkMemory) charge(slices, ahead int, awaited bool) bool {
	if !c.account.Hold(ChunkBytes(slices), awaited) {
		return false
	}
	if !c.grow(ahead) {
		c.account.Drop(ChunkBytes(slices))
		return false
	}
	return true
}

// grow adds records up to the one of a chunk with ahead chunks before it, and reports whether there
// was room.
func (c *chunkMemory) grow(ahead int) bool {
	if ahead < c.places || ahead >= Pipeline {
		return true
	}
	places := c.places
	for places <= ahead {
		places *= 2
	}
	if !c.account.Borrow(int64(places-c.places)*placeBytes, false) {
		return false
	}
	c.receiver.SetReceiveQueue(places)
	c.places = places
	return true
}

// insert inserts a slice that needs no more memory. The receiver must exist.
func (c *chunkMemory) insert(now time.Time, s chunk.Slice) { c.receiver.Insert(now, s) }

// takeChunk returns the next chunk in order, if it is complete. The receiver must exist.
func (c *chunkMemory) takeChunk() (data []byte, ok bool) {
	_, data, ok = c.receiver.Chunk()
	return data, ok
}

// ackDue reports whether a chunk has slices that haven't been acked. The receiver must exist.
func (c *chunkMemory) ackDue() bool {
	_, due := c.receiver.NextTimeout()
	return due
}

// shrink frees the records beyond Places. No chunk may be incomplete.
func (c *chunkMemory) shrink() {
	if c.places > Places {
		c.receiver.SetReceiveQueue(Places)
		c.account.Repay(int64(c.places-Places) * placeBytes)
		c.places = Places
	}
}

// partial returns the memory of a chunk's slices, and which slices have arrived. have.Count is 0
// if none has arrived.
func (c *chunkMemory) partial(id uint16) (data []byte, have chunk.Ack) {
	if c.receiver != nil {
		data, have, _ = c.receiver.Partial(id)
	}
	return data, have
}

// release is called when the owner has finished with a message or charges it elsewhere. It changes
// only the account.
func (c *chunkMemory) release(message []byte) { c.account.Drop(ChunkBytes(sliceCount(message))) }

// discard frees the receiver without a change to the account, which stays because a concurrent
// release may be reading it.
func (c *chunkMemory) discard() {
	c.receiver = nil
	c.places = 0
}
