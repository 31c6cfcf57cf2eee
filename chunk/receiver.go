package chunk

import "time"

// A Receiver assembles chunks and acks them. It has no clock and no lock. Its owner passes it
// packets, takes chunks, and asks it for acks after each batch of packets and again at NextTimeout.
type Receiver struct {
	config Config // effective
	clock  clock

	// Chunks.
	read  uint16               // id of the oldest chunk that was not taken
	slots []assembly           // chunk read and those after it; a ring that begins at head
	head  int                  // index of chunk read in slots
	taken [maxPipeline]ackable // the chunks that were taken last, by id modulo length
	free  [][]byte             // memory for later chunks

	// Acks.
	dues     dues          // chunks in slots whose ack is due, by id
	pastDues dues          // chunks in taken whose ack is due, by ^id, so that the newest comes first
	urgent   int           // number of acks in slots and taken that are due at once
	ackAt    time.Duration // no other ack is due earlier; never = none is due
	lastAck  time.Duration // when the last ack of any chunk was sent

	stats ReceiverStats
}

// ReceiverStats counts what a receiver has done since it was created.
type ReceiverStats struct {
	Chunks, ChunkBytes uint64 // complete chunks
	Slices, SliceBytes uint64 // slices received for the first time
	Duplicates         uint64 // slices received before, including slices of complete chunks
	// Slices of a chunk that is too far ahead or too old, or with another Count than earlier ones.
	Ignored   uint64
	Acks      uint64 // acks sent
	Malformed uint64 // packets that are not valid slices
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

// SetReceiveQueue replaces Config.ReceiveQueue, with 1 to 1,024 chunks. It is for a
// driver that learns how much its path holds. It never drops chunks that have
// begun, because their acked slices are not sent again; then there are more places.
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

// Chunk returns the next chunk in order, if it is complete. Its bytes belong to
// the caller, who may pass them to Recycle when it no longer needs them.
func (r *Receiver) Chunk() (id uint16, data []byte, ok bool) {
	a := &r.slots[r.head]
	if !a.complete() {
		return 0, nil, false
	}
	id, data = r.read, a.data[:a.size]
	oldest := &r.taken[id%maxPipeline]
	if oldest.due == atOnce { // drop its ack: no sender has so old a chunk in flight
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

// Recycle takes back the memory of a chunk from Chunk, for later chunks. Memory larger than
// a chunk, or beyond that of Config.ReceiveQueue chunks, is left to the garbage collector.
func (r *Receiver) Recycle(data []byte) {
	if cap(data) > 0 && cap(data) <= MaxSlices*r.config.SliceSize && len(r.free) < cap(r.free) {
		r.free = append(r.free, data[:0])
	}
}

// Trim frees the memory that Recycle has kept. Call it when the receiver pauses.
func (r *Receiver) Trim() {
	clear(r.free)
	r.free = r.free[:0]
}

// Partial returns the memory for all slices of a chunk that was not taken, and
// which of them have arrived. The caller must not change the memory, nor read it
// after the next call of a method. The last slice may be shorter than its place.
func (r *Receiver) Partial(id uint16) (data []byte, have Ack, ok bool) {
	a := r.slot(id)
	if a == nil || a.count == 0 {
		return nil, Ack{}, false
	}
	return a.data, Ack{ChunkID: id, Count: int(a.count), Acked: a.received}, true
}

// Stats returns a copy of the counters.
func (r *Receiver) Stats() ReceiverStats { return r.stats }

// ReceiveSlice handles a packet with a slice, and keeps no reference to it. An error
// Is ErrMalformed; then the packet has changed nothing. A slice that is of no use is
// counted and is not an error, because duplicates and late slices are normal.
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

// Insert handles a slice that the driver has parsed itself, keeps no reference
// to it, and reports whether it was new.
func (r *Receiver) Insert(now time.Time, s Slice) bool {
	r.clock.set(now)
	if s.check(r.config.SliceSize) != nil {
		r.stats.Malformed++
		return false
	}

	// Its chunk is new, incomplete, or was taken.
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

	// Insert the slice, and request an ack: at once if the chunk is complete.
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

// slot returns the place of a chunk that may be incomplete or wait to be taken, or nil.
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

// late requests another ack of a chunk that was taken. One of its slices has
// arrived again, so its acks were lost. It ignores slices of other chunks.
func (r *Receiver) late(s Slice) {
	a := r.past(s.ChunkID)
	if a == nil || int(a.count) != s.Count {
		r.stats.Ignored++
		return
	}
	r.stats.Duplicates++
	r.request(s.ChunkID, a, soon)
}

// begin makes room for a chunk whose first slice has arrived.
func (r *Receiver) begin(a *assembly, count int) {
	a.count, a.acked, a.data = uint16(count), r.lastAck, r.memory(count*r.config.SliceSize)
}

// memory returns size bytes for a chunk, if possible from those that Recycle has kept.
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
