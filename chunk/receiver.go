package chunk

import "time"

// Receiver puts chunks together and acks them. It has no clock and no lock; its owner gives it packets, takes chunks, and
// asks it for acks after each batch of packets and again at NextTimeout.
type Receiver struct {
	config Config // effective
	clock  clock

	// Chunks.
	read  uint16               // id of the oldest chunk that was not taken
	slots []assembly           // chunk read and those behind it, a ring that begins at head
	head  int                  // index of chunk read in slots
	taken [maxPipeline]ackable // the last chunks that were taken, by id modulo length
	free  [][]byte             // memory for chunks to come

	// Acks.
	dues     dues          // chunks of slots whose ack is due, by id
	pastDues dues          // those of taken, by ^id: the newest comes first
	urgent   int           // how many of slots and taken have an ack due at once
	ackAt    time.Duration // no other ack is due earlier; never = none
	lastAck  time.Duration // when the last ack of any chunk left

	stats ReceiverStats
}

// ReceiverStats counts what a receiver did since it was made.
type ReceiverStats struct {
	Chunks, ChunkBytes uint64 // finished
	Slices, SliceBytes uint64 // slices received for the first time
	Duplicates         uint64 // slices received before, also slices of finished chunks
	Ignored            uint64 // slices of a chunk that is too far ahead or long past, or with another Count than earlier ones
	Acks               uint64 // acks sent
	Malformed          uint64 // packets that are not slices
}

// NewReceiver returns a receiver, or the error of Config.Validate.
func NewReceiver(c Config) (*Receiver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.effective()
	r := &Receiver{config: c, ackAt: never, lastAck: -c.AckDelay}
	r.slots = make([]assembly, c.ReceiveQueue)
	r.free = make([][]byte, 0, c.ReceiveQueue)
	return r, nil
}

// SetReceiveQueue replaces Config.ReceiveQueue, with 1 to 1,024 chunks, for a driver that learns how much its path holds. It never drops
// chunks that have begun, since their acked slices do not come again; there are more places then.
func (r *Receiver) SetReceiveQueue(chunks int) {
	for i := range r.slots {
		if r.slots[(r.head+i)%len(r.slots)].count > 0 {
			chunks = max(chunks, i+1)
		}
	}
	places := make([]assembly, min(max(chunks, 1), maxPipeline))
	n := copy(places, r.slots[r.head:])
	copy(places[n:], r.slots[:r.head])
	r.slots, r.head = places, 0
	r.free = append(make([][]byte, 0, len(places)), r.free[:min(len(r.free), len(places))]...)
}

// Chunk hands out the next chunk in order, if it is complete. Its bytes belong to the caller, who may give them back with Recycle.
func (r *Receiver) Chunk() (id uint16, data []byte, ok bool) {
	a := &r.slots[r.head]
	if !a.complete() {
		return 0, nil, false
	}
	id, data = r.read, a.data[:a.size]
	oldest := &r.taken[id%maxPipeline]
	if oldest.due == atOnce { // its ack is given up: no sender has so old a chunk in flight
		r.urgent--
	}
	r.dues.clear(id)
	r.pastDues.clear(^id)
	if a.due != quiet {
		r.pastDues.set(^id)
	}
	*oldest, *a = a.ackable, assembly{}
	r.head = (r.head + 1) % len(r.slots)
	r.read++
	return id, data, true
}

// Recycle takes back the memory of a chunk that Chunk handed out, for chunks to come. Memory that is larger than a chunk, or beyond
// that of Config.ReceiveQueue chunks, is left to the garbage collector.
func (r *Receiver) Recycle(data []byte) {
	if cap(data) > 0 && cap(data) <= MaxSlices*r.config.SliceSize && len(r.free) < cap(r.free) {
		r.free = append(r.free, data[:0])
	}
}

// Trim gives up the memory that Recycle has taken; a receiver that pauses does not need it.
func (r *Receiver) Trim() {
	clear(r.free)
	r.free = r.free[:0]
}

// Partial returns the memory for all slices of a chunk that was not taken, and which of them are there. The caller must not change
// the memory, nor read it after the next call of the receiver. The last slice may be shorter than its place.
func (r *Receiver) Partial(id uint16) (data []byte, have Ack, ok bool) {
	a := r.slot(id)
	if a == nil || a.count == 0 {
		return nil, Ack{}, false
	}
	return a.data, Ack{ChunkID: id, Count: int(a.count), Acked: a.received}, true
}

// Stats returns a copy of the counters.
func (r *Receiver) Stats() ReceiverStats { return r.stats }

// ReceiveSlice takes a packet with a slice, and keeps no reference to it. An error Is ErrMalformed; the packet has changed nothing.
// A slice that is of no use is counted and is no error: duplicates and late ones are normal.
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

// Insert takes a slice that the driver has read itself, keeps no reference to it, and reports whether it was new.
func (r *Receiver) Insert(now time.Time, s Slice) bool {
	r.clock.set(now)
	if s.check(r.config.SliceSize) != nil {
		r.stats.Malformed++
		return false
	}

	// Its chunk: new, under way, or over.
	a := r.slot(s.ChunkID)
	switch {
	case a == nil:
		r.late(s)
		return false
	case a.count == 0:
		r.begin(a, s.Count)
	case int(a.count) != s.Count:
		r.stats.Ignored++
		return false
	}

	// The slice, and the ack that it asks for: at once when the chunk is complete.
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

// slot returns the place of a chunk that may be under way or wait to be taken, or nil.
func (r *Receiver) slot(id uint16) *assembly {
	ahead := int(id - r.read)
	if ahead >= len(r.slots) {
		return nil
	}
	return &r.slots[(r.head+ahead)%len(r.slots)]
}

// past returns the record of a chunk taken lately, or nil.
func (r *Receiver) past(id uint16) *ackable {
	if back := r.read - id; back < 1 || back > maxPipeline {
		return nil
	}
	return &r.taken[id%maxPipeline]
}

// late requests another ack of a chunk that was taken already: one of its slices came again, so its acks were lost. It ignores slices of
// other chunks.
func (r *Receiver) late(s Slice) {
	a := r.past(s.ChunkID)
	if a == nil || int(a.count) != s.Count {
		r.stats.Ignored++
		return
	}
	r.stats.Duplicates++
	r.request(s.ChunkID, a, soon)
}

// begin makes room for a chunk, of which the first slice has come.
func (r *Receiver) begin(a *assembly, count int) {
	a.count, a.acked, a.data = uint16(count), r.lastAck, r.memory(count*r.config.SliceSize)
}

// memory returns size bytes for a chunk, from those that Recycle has taken if they are enough.
func (r *Receiver) memory(size int) []byte {
	if n := len(r.free); n > 0 {
		data := r.free[n-1]
		r.free = r.free[:n-1]
		if cap(data) >= size {
			return data[:size]
		}
	}
	return make([]byte, size)
}
