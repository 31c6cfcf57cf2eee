package chunk

import (
	"fmt"
	"slices"
	"time"
)

// A Receiver assembles chunks and acks them.
//
// Its owner passes packets to it, takes complete chunks from it, and asks it for acks after each
// batch of packets and again at NextTimeout. A Receiver has no clock and is not safe for concurrent
// use.
type Receiver struct {
	config Config // effective
	clock  clock

	// Chunks. The owner takes them in order with Chunk.
	read  uint16               // id of the next chunk to be taken
	slots []assembly           // that chunk and the following ones; a ring starting at head
	head  int                  // index of chunk read in slots
	taken [maxPipeline]ackable // chunks taken last, by id modulo length
	free  [][]byte             // recycled memory for new chunks; at most as many as slots

	// Acks.
	dues     dues          // chunks in slots whose ack is due, by id
	pastDues dues          // chunks in taken whose ack is due, by ^id so that the newest is first
	urgent   int           // number of acks that are due at once, in slots and taken
	ackAt    time.Duration // no other ack is due before this time; never if none is due
	acked    ackTimes      // when the latest ack of each chunk was sent
	lastAck  time.Duration // when the latest ack of any chunk was sent

	stats ReceiverStats
}

// ReceiverStats counts what a receiver did since it was created.
type ReceiverStats struct {
	Chunks, ChunkBytes uint64 // complete chunks
	Slices, SliceBytes uint64 // slices received for the first time
	Duplicates         uint64 // slices received again, including slices of complete chunks
	// Slices of a chunk that is too new or too old, or with another Count than earlier slices.
	Ignored   uint64
	Acks      uint64 // acks sent
	Malformed uint64 // packets that are not valid slices
}

// NewReceiver returns a receiver. It returns the error of Config.Validate if c is invalid.
func NewReceiver(c Config) (*Receiver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.effective()
	r := &Receiver{config: c, ackAt: never, lastAck: -c.AckDelay}
	r.slots = make([]assembly, c.ReceiveQueue)
	if c.AckDelay > 0 {
		r.acked = make(ackTimes, maxPipeline)
	}
	return r, nil
}

// SetReceiveQueue replaces Config.ReceiveQueue with a number of chunks from 1 to 1,024. It is for
// a driver that learns how much its path holds, or that saves memory while nothing arrives: each
// chunk takes 80 bytes even before its first slice. What it takes to ack late slices is kept.
//
// It never drops a chunk of which a slice has arrived, because the sender does not resend acked
// slices. If such chunks need more room than requested, it makes the queue larger. An error means
// that the number is out of range and that the queue is unchanged.
func (r *Receiver) SetReceiveQueue(chunks int) error {
	if chunks < 1 || chunks > maxPipeline {
		return fmt.Errorf("chunk: SetReceiveQueue(%d): the number must be 1 to %d", chunks, maxPipeline)
	}
	for i := range r.slots {
		if r.slots[(r.head+i)%len(r.slots)].due != unused {
			chunks = max(chunks, i+1)
		}
	}
	slots := make([]assembly, chunks)
	n := copy(slots, r.slots[r.head:])
	copy(slots[n:], r.slots[:r.head])
	r.slots = slots
	r.head = 0
	r.free = slices.Clone(r.free[:min(len(r.free), chunks)])
	return nil
}

// Chunk takes the next chunk in order if it is complete. The caller owns data and may later pass it
// to Recycle.
func (r *Receiver) Chunk() (id uint16, data []byte, ok bool) {
	a := &r.slots[r.head]
	if !a.complete() {
		return 0, nil, false
	}
	id, data = r.read, a.data[:a.size]
	r.dues.clear(id)
	r.remember(id, a.ackable)
	*a = assembly{}
	r.head = (r.head + 1) % len(r.slots)
	r.read++
	return id, data, true
}

// remember records a chunk that is being taken, because it must be acked again if its acks are
// lost. The record replaces that of the chunk taken maxPipeline chunks earlier, which no sender can
// still have in flight.
func (r *Receiver) remember(id uint16, a ackable) {
	oldest := &r.taken[id%maxPipeline]
	if oldest.due == atOnce {
		r.urgent--
	}
	*oldest = a
	r.pastDues.clear(^id)
	if a.due > quiet {
		r.pastDues.set(^id)
	}
}

// Recycle takes back the memory of a chunk that Chunk returned, to reuse it for a later one. It
// ignores memory that is larger than a chunk, and memory beyond that of Config.ReceiveQueue chunks.
func (r *Receiver) Recycle(data []byte) {
	if cap(data) > 0 && cap(data) <= MaxSlices*r.config.SliceSize && len(r.free) < len(r.slots) {
		r.free = append(r.free, data[:0])
	}
}

// Trim frees the memory kept by Recycle. Call it when no more chunks are expected for a while.
func (r *Receiver) Trim() {
	r.free = nil
}

// Partial returns the memory of a chunk that has not been taken yet. It has room for all slices of
// the chunk, and have says which of them have arrived. The last slice may be shorter than its room.
//
// The caller must not change the memory, and must not read it after the next call of a method.
func (r *Receiver) Partial(id uint16) (data []byte, have Ack, ok bool) {
	a := r.slot(id)
	if a == nil || a.due == unused {
		return nil, Ack{}, false
	}
	return a.data, Ack{ChunkID: id, Count: a.count(), Acked: a.received}, true
}

// Stats returns a copy of the counters.
func (r *Receiver) Stats() ReceiverStats { return r.stats }

// ReceiveSlice handles a packet with a slice. It keeps no reference to the packet. An error wraps
// ErrMalformed and means that the packet changed nothing.
//
// Duplicate and late slices are normal, so they cause no error but are counted in the Stats.
func (r *Receiver) ReceiveSlice(now time.Time, packet []byte) error {
	p, err := r.config.Parse(packet)
	if err == nil && p.Kind != KindSlice {
		err = errNotSlice
	}
	if err != nil {
		r.stats.Malformed++
		return err
	}
	r.Insert(now, p.Slice)
	return nil
}

// Insert handles a slice that the driver has parsed itself, and reports whether it was new.
// It keeps no reference to the slice's data.
func (r *Receiver) Insert(now time.Time, s Slice) bool {
	r.clock.set(now)
	if s.check(r.config.SliceSize) != nil {
		r.stats.Malformed++
		return false
	}

	// Find the slice's chunk, which may be new, incomplete, complete or already taken.
	a := r.slot(s.ChunkID)
	switch {
	case a == nil:
		r.receiveLate(s)
		return false
	case a.due == unused:
		r.begin(a, s)
	case a.count() != s.Count:
		r.stats.Ignored++
		return false
	}

	// Insert the slice and request an ack, which is due at once if the chunk is complete. A
	// duplicate is acked as well, since the ack may have been lost.
	if !a.insert(s, r.config.SliceSize) {
		r.stats.Duplicates++
		r.request(s.ChunkID, &a.ackable, soon)
		return false
	}
	r.stats.Slices++
	r.stats.SliceBytes += uint64(len(s.Data))
	if !a.complete() {
		r.request(s.ChunkID, &a.ackable, soon)
		return true
	}
	r.stats.Chunks++
	r.stats.ChunkBytes += uint64(a.size)
	r.request(s.ChunkID, &a.ackable, atOnce)
	return true
}

// slot returns a chunk's place in slots, or nil if the chunk was taken or is too far ahead.
func (r *Receiver) slot(id uint16) *assembly {
	ahead := int(id - r.read)
	if ahead >= len(r.slots) {
		return nil
	}
	return &r.slots[(r.head+ahead)%len(r.slots)]
}

// past returns the record of a chunk that was recently taken, or nil.
func (r *Receiver) past(id uint16) *ackable {
	if back := r.read - id; back < 1 || back > maxPipeline {
		return nil
	}
	return &r.taken[id%maxPipeline]
}

// receiveLate handles a slice whose chunk has no place in slots. If the chunk was taken, its ack
// was probably lost, so receiveLate requests another one. Otherwise it ignores the slice.
func (r *Receiver) receiveLate(s Slice) {
	a := r.past(s.ChunkID)
	if a == nil || a.count() != s.Count {
		r.stats.Ignored++
		return
	}
	r.stats.Duplicates++
	r.request(s.ChunkID, a, soon)
}

// begin begins a chunk whose first slice has arrived. AckDelay then applies between the latest ack
// of any chunk and the first ack of this one.
func (r *Receiver) begin(a *assembly, first Slice) {
	a.ackable = ackable{due: quiet, last: uint8(first.Count - 1)}
	r.acked.set(first.ChunkID, r.lastAck)
	a.data = r.takeMemory(first.Count * r.config.SliceSize)
}

// takeMemory returns size bytes for a chunk, from Recycle if the next one there is large enough.
func (r *Receiver) takeMemory(size int) []byte {
	if n := len(r.free); n > 0 {
		data := r.free[n-1]
		r.free = r.free[:n-1]
		if cap(data) >= size {
			return data[:size]
		}
	}
	return make([]byte, size)
}
