package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/pages"
)

// A chunkMemory charges a receiver and its chunks to the connection's account. If there's no room
// for a chunk, it's neither stored nor charged.
//
// The receiver has a record for each chunk that it can hold at a time, from the next one in order.
// A record takes memory even before its chunk has begun to arrive.
type chunkMemory struct {
	account  Account
	receiver *chunk.Receiver // nil before the first slice
	records  int             // at least InitialRecords once there is a receiver
}

const (
	// ReceiverBytes is the memory that a chunk.Receiver uses, excluding its chunks. That's for
	// InitialRecords records, and for its list of the last 1,024 chunks that were delivered.
	ReceiverBytes = 52 << 10

	// recordBytes is the memory for each additional record, with its entry in the receiver's list
	// of memory for later chunks.
	recordBytes = 128
)

// ensureReceiver creates the receiver if there is none, and reports whether there was room for it.
func (c *chunkMemory) ensureReceiver() bool {
	if c.receiver != nil {
		return true
	}
	const awaited = true // no message can be delivered without a receiver
	if !c.account.Borrow(ReceiverBytes, awaited) {
		return false
	}
	r, err := chunk.NewReceiver(config)
	if err != nil {
		panic(err) // can't happen, because config is valid
	}
	c.receiver, c.records = r, InitialRecords
	return true
}

// insertFirst inserts the first slice of a chunk, and reports whether there was room for the chunk.
// ahead is the number of chunks that must be delivered before it. awaited is set if no later
// message can be delivered before this chunk has arrived.
//
// A chunk that needs exactly as much memory as a page, such as a full part of a transfer, is stored
// in a page. inbox.recycle gives the page back.
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

// charge charges the account for the content of a chunk with that many slices, and for the records
// that must be added until the chunk has one. It reports whether there was room.
func (c *chunkMemory) charge(count, ahead int, awaited bool) bool {
	if !c.account.Hold(ChunkBytes(count), awaited) {
		return false
	}
	if !c.grow(ahead) {
		c.account.Drop(ChunkBytes(count))
		return false
	}
	return true
}

// grow adds records, if necessary, until there is one for a chunk with ahead chunks before it. It
// reports whether there was room for them. A receiver never has more than Pipeline records.
func (c *chunkMemory) grow(ahead int) bool {
	if ahead < c.records || ahead >= Pipeline {
		return true
	}
	records := c.records
	for records <= ahead {
		records *= 2
	}
	if !c.account.Borrow(int64(records-c.records)*recordBytes, false) {
		return false
	}
	c.receiver.SetReceiveQueue(records)
	c.records = records
	return true
}

// insert inserts a slice that needs no more memory. The receiver must exist.
func (c *chunkMemory) insert(now time.Time, s chunk.Slice) { c.receiver.Insert(now, s) }

// takeChunk returns the next chunk in order, if it is complete. The receiver must exist.
func (c *chunkMemory) takeChunk() (data []byte, ok bool) {
	_, data, ok = c.receiver.Chunk()
	return data, ok
}

// hasUnacked reports whether slices arrived that we haven't acked yet. The receiver must exist.
func (c *chunkMemory) hasUnacked() bool {
	_, due := c.receiver.NextTimeout()
	return due
}

// shrink frees the records that grow added. It must be called only while no chunk is incomplete,
// because the receiver never frees a record in use.
func (c *chunkMemory) shrink() {
	if c.records > InitialRecords {
		c.receiver.SetReceiveQueue(InitialRecords)
		c.account.Repay(int64(c.records-InitialRecords) * recordBytes)
		c.records = InitialRecords
	}
}

// partial returns the memory for a chunk's slices, and which slices have arrived. have.Count is 0
// if the chunk hasn't begun to arrive.
func (c *chunkMemory) partial(id uint16) (data []byte, have chunk.Ack) {
	if c.receiver != nil {
		data, have, _ = c.receiver.Partial(id)
	}
	return data, have
}

// release takes a message off the account, because the owner has finished with it or charges it
// elsewhere. It uses only the account, so it may run concurrently with the other methods.
func (c *chunkMemory) release(message []byte) { c.account.Drop(ChunkBytes(sliceCount(message))) }

// discard frees the receiver and its chunks. It neither takes them off the account nor changes the
// field account, which a concurrent release may be reading.
func (c *chunkMemory) discard() {
	c.receiver = nil
	c.records = 0
}
