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
// A record takes memory even before its chunk has begun to arrive, so there are few as long as
// chunks arrive in order. Those that grow adds are freed as soon as no chunk is incomplete.
//
// A peer can't make that expensive by having us do it over and over. There are n records only for a
// chunk with at least n/2 others before it, and all of them must be delivered before the records
// are freed.
type chunkMemory struct {
	account  Account
	receiver *chunk.Receiver // nil before the first slice
	records  int             // at least leastRecords once there is a receiver
}

const (
	// ReceiverBytes is the memory that a chunk.Receiver uses until the connection ends. That's for
	// leastRecords records, and for its list of the last 1,024 chunks that were delivered, which it
	// needs to ack them again.
	ReceiverBytes = 7 << 9

	// RecordsBytes is the memory for the records that a receiver adds until it has ReservedRecords.
	RecordsBytes = (ReservedRecords - leastRecords) * recordBytes

	// leastRecords is the number of records that a receiver always has. It's a power of two.
	leastRecords = 8

	// recordBytes is the memory for each additional record.
	recordBytes = 88
)

// ensureReceiver creates the receiver if there is none, and reports whether there was room for it.
func (c *chunkMemory) ensureReceiver() bool {
	if c.receiver != nil {
		return true
	}
	const reserve = true // no message can be delivered without a receiver
	if !c.account.Borrow(ReceiverBytes, reserve) {
		return false
	}
	r, err := chunk.NewReceiver(config)
	if err != nil {
		panic(err) // can't happen, because config is valid
	}
	c.receiver, c.records = r, leastRecords
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
//
// The first ReservedRecords may use the account's reserve, which has room for them beside the
// awaited chunk, so a transfer in progress gets them even if others use all memory.
func (c *chunkMemory) grow(ahead int) bool {
	if ahead < c.records || ahead >= Pipeline {
		return true
	}
	records := c.records
	for records <= ahead {
		records *= 2
	}
	reserve := records <= ReservedRecords
	if !c.account.Borrow(int64(records-c.records)*recordBytes, reserve) {
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
	if c.records > leastRecords {
		c.receiver.SetReceiveQueue(leastRecords)
		c.account.Return(int64(c.records-leastRecords) * recordBytes)
		c.records = leastRecords
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
