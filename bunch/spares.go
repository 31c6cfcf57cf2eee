package bunch

import (
	"slices"
	"sync"
)

// spares is a stack of memory for reuse.
type spares[T any] struct {
	items []T
	most  int // put leaves further ones to the collector
	least int // the fewest items since the last trim: so many at the bottom were not needed since then
}

// take returns the item that was put last, or a zero value when there is none.
func (s *spares[T]) take() (spare T) {
	last := len(s.items) - 1
	if last < 0 {
		return spare
	}
	spare, s.items[last] = s.items[last], spare
	s.items, s.least = s.items[:last], min(s.least, last)
	return spare
}

func (s *spares[T]) put(spare T) {
	if len(s.items) < s.most {
		s.items = append(s.items, spare)
	}
}

// trim gives up the items that were not needed since the last trim.
func (s *spares[T]) trim() {
	if s.least == len(s.items) {
		s.items, s.least = nil, 0
		return
	}
	s.items = slices.Delete(s.items, 0, s.least)
	s.least = len(s.items)
}

const (
	smallBlock = 128 // bytes
	maxSpare   = 256 // small blocks kept for reuse: one reliable buffer
	maxRings   = 32  // rings kept for reuse: one for each lane of a Window
)

// blocks gives payloads their memory, and takes it back, so that steady traffic allocates nothing. Small blocks stay with the connection.
// Full ones, of EntryBytes, are those of all connections: bulk has thousands in flight, and most connections have none.
type blocks struct{ small spares[[]byte] }

var fullBlocks = sync.Pool{New: func() any { return new([EntryBytes]byte) }}

// get returns an empty block with room for size bytes, at most EntryBytes.
func (b *blocks) get(size int) []byte {
	if size > smallBlock {
		return fullBlocks.Get().(*[EntryBytes]byte)[:0]
	}
	if block := b.small.take(); block != nil {
		return block[:0]
	}
	return make([]byte, 0, smallBlock)
}

// put takes a block back. Memory that is not from get (nil, slices of datagrams) is left to the collector.
func (b *blocks) put(block []byte) {
	switch cap(block) {
	case smallBlock:
		b.small.put(block)
	case EntryBytes:
		fullBlocks.Put((*[EntryBytes]byte)(block[:EntryBytes]))
	}
}

// grown returns block with room for more bytes behind its content.
func (b *blocks) grown(block []byte, more int) []byte {
	if len(block)+more <= cap(block) {
		return block
	}
	bigger := append(b.get(len(block)+more), block...)
	b.put(block)
	return bigger
}
