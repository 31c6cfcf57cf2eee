package stream

import (
	"math/bits"
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

// sliceFate is what is known of a slice that left.
type sliceFate uint8

const (
	sliceFlying sliceFate = iota
	sliceLost
	sliceLanded
)

// sentSlice is one sending of one slice.
type sentSlice struct {
	at     time.Time
	number uint64
	id     uint16 // of the chunk
	index  uint8
	again  bool // the slice had left before, so that an ack does not tell which sending arrived
	fate   sliceFate
	size   int
	mark   recovery.Mark
}

// sliceFlight remembers the sendings whose fate is open, numbered from 0, and which is the newest of each slice.
type sliceFlight struct {
	ring   []sentSlice // a power of two long; holds oldest to next-1
	oldest uint64
	next   uint64
	bytes  int // flying
	count  int
	resent uint64
	chunks *[slicePipeline]sentChunk // by id modulo length; nil before the first and while idle, for it is large
}

// sentChunk is what is known of the slices of one chunk.
type sentChunk struct {
	id     uint16
	acked  chunk.Bits
	newest []uint64 // sending of each slice, plus one; 0 = not sent
}

// begin makes room for a chunk whose slices will be sent.
func (f *sliceFlight) begin(id uint16, count int) {
	if f.chunks == nil {
		f.chunks = new([slicePipeline]sentChunk)
	}
	c := &f.chunks[id%slicePipeline]
	if cap(c.newest) < count {
		c.newest = make([]uint64, count)
	}
	c.newest = c.newest[:count]
	clear(c.newest)
	c.id, c.acked = id, chunk.Bits{}
}

// sent returns what is known of the slices of a chunk, or nil.
func (f *sliceFlight) sent(id uint16) *sentChunk {
	if f.chunks == nil || f.chunks[id%slicePipeline].id != id {
		return nil
	}
	return &f.chunks[id%slicePipeline]
}

// launch notes that a slice leaves now. A sending of it that is still flying counts as lost.
func (f *sliceFlight) launch(now time.Time, s chunk.Slice) (number uint64, again bool) {
	c := &f.chunks[s.ChunkID%slicePipeline]
	before := c.newest[s.Index]
	if again = before != 0; again {
		f.lose(before - 1)
		f.resent++
	}
	if f.next-f.oldest == uint64(len(f.ring)) {
		f.grow()
	}
	number = f.next
	f.next++
	c.newest[s.Index] = number + 1
	*f.at(number) = sentSlice{at: now, number: number, id: s.ChunkID, index: uint8(s.Index), again: again, size: len(s.Data) + 1 + chunk.Overhead}
	f.bytes += f.at(number).size
	f.count++
	return number, again
}

func (f *sliceFlight) at(number uint64) *sentSlice { return &f.ring[number&uint64(len(f.ring)-1)] }

// get returns a sending that is remembered, or nil.
func (f *sliceFlight) get(number uint64) *sentSlice {
	if number < f.oldest || number >= f.next {
		return nil
	}
	return f.at(number)
}

// lose notes that a sending did not arrive, and returns it if it was flying.
func (f *sliceFlight) lose(number uint64) *sentSlice {
	p := f.get(number)
	if p == nil || p.fate != sliceFlying {
		return nil
	}
	f.land(p, sliceLost)
	return p
}

func (f *sliceFlight) land(p *sentSlice, fate sliceFate) {
	p.fate = fate
	f.bytes -= p.size
	f.count--
}

// ack takes an ack and tells of the newest sending of each slice that it is news of, as far as that is remembered. It
// returns what is acked of the chunk without the slices that never left: a peer may say so, but need not be believed.
func (f *sliceFlight) ack(a chunk.Ack, landed func(p *sentSlice)) chunk.Bits {
	c := f.sent(a.ChunkID)
	if c == nil || len(c.newest) != a.Count {
		return chunk.Bits{}
	}
	for word := range a.Acked {
		for fresh := a.Acked[word] &^ c.acked[word]; fresh != 0; fresh &= fresh - 1 {
			i := word*64 + bits.TrailingZeros64(fresh)
			if i >= a.Count || c.newest[i] == 0 {
				continue
			}
			c.acked.Set(i)
			if p := f.get(c.newest[i] - 1); p != nil && p.fate != sliceLanded {
				landed(p)
				if p.fate == sliceFlying {
					f.bytes -= p.size
					f.count--
				}
				p.fate = sliceLanded
			}
		}
	}
	return c.acked
}

// firstFlying forgets the decided ones from the old end and returns the oldest that flies.
func (f *sliceFlight) firstFlying() (p *sentSlice, ok bool) {
	for f.oldest < f.next && f.at(f.oldest).fate != sliceFlying {
		f.oldest++
	}
	if f.oldest == f.next {
		return nil, false
	}
	return f.at(f.oldest), true
}

func (f *sliceFlight) grow() {
	if f.firstFlying(); f.next-f.oldest < uint64(len(f.ring)) {
		return
	}
	old := *f
	f.ring = make([]sentSlice, max(64, 2*len(f.ring)))
	for n := old.oldest; n < old.next; n++ {
		*f.at(n) = *old.at(n)
	}
}

// trim gives up the memory, when nothing is under way.
func (f *sliceFlight) trim() {
	f.ring, f.oldest, f.chunks = nil, f.next, nil
}
