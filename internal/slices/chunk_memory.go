package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// chunkMemory is a receiver whose memory is charged to the connection's account: its records, the chunks in it, and the memory that it
// keeps for chunks to come. What finds no room is not there and not charged.
type chunkMemory struct {
	account  Account
	receiver *chunk.Receiver // nil before the first slice
	places   int             // records of chunks that the receiver has
	spares   []int64         // memory that the receiver keeps for later chunks, the last of which it takes first
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

// equip makes the receiver unless there is one, and reports whether there was room for its records.
func (m *chunkMemory) equip() bool {
	if m.receiver != nil {
		return true
	}
	if !m.account.Borrow(ReceiverBytes, true) {
		return false
	}
	r, err := chunk.NewReceiver(config)
	if err != nil {
		panic(err) // of a constant
	}
	m.receiver, m.places = r, Places
	return true
}

// begin takes the first slice of a chunk that is so far ahead of the next to be handed out, and reports whether there was room for the
// chunk. Awaited: nothing behind it comes in before it does.
func (m *chunkMemory) begin(now time.Time, s chunk.Slice, ahead int, awaited bool) bool {
	if !m.hold(s.Count, ahead, awaited) {
		return false
	}
	m.receiver.Insert(now, s)
	if n := len(m.spares); n > 0 {
		data, _, _ := m.receiver.Partial(s.ChunkID)
		m.account.Repay(m.spares[n-1] - spareBytes(data, s.Count)) // the chunk is charged for what the receiver took again
		m.spares = m.spares[:n-1]
	}
	return true
}

// hold charges a chunk of so many slices, and its record if there is none so far ahead.
func (m *chunkMemory) hold(slices, ahead int, awaited bool) bool {
	if !m.account.Hold(ChunkBytes(slices), awaited) {
		return false
	}
	if !m.widen(ahead) {
		m.account.Drop(ChunkBytes(slices))
		return false
	}
	return true
}

// widen makes records for a chunk that is so far ahead, if there is room for them.
func (m *chunkMemory) widen(ahead int) bool {
	if ahead < m.places || ahead >= Pipeline {
		return true
	}
	wider := m.places
	for wider <= ahead {
		wider *= 2
	}
	if !m.account.Borrow(int64(wider-m.places)*placeBytes, false) {
		return false
	}
	m.receiver.SetReceiveQueue(wider)
	m.places = wider
	return true
}

// narrow gives up the records of chunks far ahead. None may be under way.
func (m *chunkMemory) narrow() {
	if m.places > Places {
		m.receiver.SetReceiveQueue(Places)
		m.account.Repay(int64(m.places-Places) * placeBytes)
		m.places = Places
	}
}

// partial returns the place of a chunk's slices and which of them are there; a Count of 0 says that none is.
func (m *chunkMemory) partial(id uint16) (data []byte, have chunk.Ack) {
	if m.receiver != nil {
		data, have, _ = m.receiver.Partial(id)
	}
	return data, have
}

// release notes that the caller is done with a message, or accounts for it elsewhere. It touches the account only.
func (m *chunkMemory) release(message []byte) {
	count := sliceCount(message)
	m.account.Drop(ChunkBytes(count))
	m.account.Repay(spareBytes(message, count))
}

// giveBack takes the memory of a message that was released, for one of the chunks to come, unless it is more than a full part's.
func (m *chunkMemory) giveBack(message []byte) {
	memory := Allocated(int64(cap(message)))
	if len(m.spares) < spareChunks && cap(message) <= PartSlices*Size && m.account.Borrow(memory, false) {
		m.spares = append(m.spares, memory)
		m.receiver.Recycle(message)
	}
}

// trim gives up spare memory, also that of records while no chunk is under way.
func (m *chunkMemory) trim(open int) {
	if m.receiver == nil {
		return
	}
	m.receiver.Trim()
	if open == 0 {
		m.narrow()
	}
	for _, memory := range m.spares {
		m.account.Repay(memory)
	}
	m.spares = nil
}
