package chunk

import (
	"fmt"
	"time"
)

// Receiver puts chunks together and acks them. It has no clock and no lock; its owner gives it packets, takes chunks, and
// asks it for acks after each batch of packets and again at NextTimeout.
type Receiver struct {
	config Config // effective
	format format
	clock  clock

	// Chunks.
	read  uint16     // the oldest chunk that was not taken
	slots []assembly // chunk read and those that follow, a ring that begins at head
	head  int
	taken [maxPipeline]ackable // the last chunks taken, by id modulo length
	free  [][]byte             // memory for chunks to come

	// Acks.
	urgent  int           // of slots and taken, those whose ack is due at once
	ackAt   time.Duration // no other ack is due before; never = none
	lastAck time.Duration // of any chunk

	stats ReceiverStats
}

// ReceiverStats counts what a receiver did since it was made.
type ReceiverStats struct {
	Chunks, ChunkBytes uint64 // finished
	Slices, SliceBytes uint64 // that were new
	Duplicates         uint64 // slices that were there already, of finished chunks too
	Ignored            uint64 // slices of a chunk that has no room, or is long past, or does not fit what came before
	Acks               uint64
	Malformed          uint64 // packets that are not slices
}

// NewReceiver returns the error of Config.Validate.
func NewReceiver(c Config) (*Receiver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.effective()
	r := &Receiver{config: c, format: c.format(), ackAt: never, lastAck: -c.AckDelay}
	r.slots = make([]assembly, c.ReceiveQueue)
	r.free = make([][]byte, 0, c.ReceiveQueue)
	return r, nil
}

// SetReceiveQueue replaces Config.ReceiveQueue, of 1 to 1,024 chunks, for a driver that learns what its path holds. Places of chunks that
// are there, or under way, stay: what was acked of them does not come again.
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

// Chunk hands out the next chunk in order, when it is complete. Its bytes are the caller's; Recycle gives them back.
func (r *Receiver) Chunk() (id uint16, data []byte, ok bool) {
	a := &r.slots[r.head]
	if !a.complete() {
		return 0, nil, false
	}
	id, data = r.read, a.data[:a.size]
	oldest := &r.taken[id%maxPipeline]
	if oldest.due == atOnce { // no sender has it in flight any more
		r.urgent--
	}
	*oldest, *a = a.ackable, assembly{}
	r.head = (r.head + 1) % len(r.slots)
	r.read++
	return id, data, true
}

// Recycle takes back the memory of a chunk that Chunk handed out, for chunks to come. What is too large for that, or more than
// Config.ReceiveQueue, is left to the garbage collector.
func (r *Receiver) Recycle(data []byte) {
	if cap(data) > 0 && cap(data) <= MaxSlices*r.config.SliceSize && len(r.free) < cap(r.free) {
		r.free = append(r.free, data[:0])
	}
}

// Trim gives up what Recycle has taken. A receiver that pauses need not hold it.
func (r *Receiver) Trim() {
	clear(r.free)
	r.free = r.free[:0]
}

// Partial shows a chunk that has not been taken: the place of all its slices, and which of them are there. Both are only to
// be read, until the next call of the receiver. The last slice may be shorter than its place.
func (r *Receiver) Partial(id uint16) (data []byte, have Ack, ok bool) {
	a := r.slot(id)
	if a == nil || a.count == 0 {
		return nil, Ack{}, false
	}
	return a.data, Ack{ChunkID: id, Count: int(a.count), Acked: a.received}, true
}

// Stats returns a copy of the counters.
func (r *Receiver) Stats() ReceiverStats { return r.stats }

// ReceiveSlice takes a slice's packet, of which it keeps nothing. An error Is ErrMalformed; the packet has changed nothing.
// A slice that cannot be used is counted, which is no error: duplicates and late ones are normal.
func (r *Receiver) ReceiveSlice(now time.Time, packet []byte) error {
	p, err := r.format.parse(packet)
	if err == nil && p.Kind != KindSlice {
		err = fmt.Errorf("%w: a receiver got an %v", ErrMalformed, p.Kind)
	}
	if err != nil {
		r.stats.Malformed++
		return err
	}
	r.Insert(now, p.Slice)
	return nil
}

// Insert takes a slice that the driver has read itself, of which it keeps nothing, and reports whether it was new.
func (r *Receiver) Insert(now time.Time, s Slice) bool {
	r.clock.set(now)
	if s.check(r.config.SliceSize) != nil {
		r.stats.Malformed++
		return false
	}
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
	if !a.insert(s, r.config.SliceSize) {
		r.stats.Duplicates++
		r.request(&a.ackable, soon)
		return false
	}
	r.stats.Slices++
	r.stats.SliceBytes += uint64(len(s.Data))
	if !a.complete() {
		r.request(&a.ackable, soon)
		return true
	}
	r.stats.Chunks++
	r.stats.ChunkBytes += uint64(a.size)
	r.request(&a.ackable, atOnce)
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

// late answers a slice of a chunk that is finished already, whose acks were lost, and ignores any other.
func (r *Receiver) late(s Slice) {
	a := r.past(s.ChunkID)
	if a == nil || int(a.count) != s.Count {
		r.stats.Ignored++
		return
	}
	r.stats.Duplicates++
	r.request(a, soon)
}

// begin makes room for a chunk.
func (r *Receiver) begin(a *assembly, count int) {
	a.count, a.acked, a.data = uint16(count), r.lastAck, r.memory(count*r.config.SliceSize)
}

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
