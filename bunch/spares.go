package bunch

import "slices"

// spares is a stack of items for reuse, such as blocks of memory.
type spares[T any] struct {
	items []T
	most  int // put drops items beyond this number
	least int // the fewest items since the last trim; that many were not needed since then
}

// take returns the item that was put last, or the zero value if there is none.
func (s *spares[T]) take() (spare T) {
	last := len(s.items) - 1
	if last < 0 {
		return spare
	}
	spare, s.items[last] = s.items[last], spare
	s.items, s.least = s.items[:last], min(s.least, last)
	return spare
}

// put adds an item.
func (s *spares[T]) put(spare T) {
	if len(s.items) < s.most {
		s.items = append(s.items, spare)
	}
}

// trim drops the items that were not needed since the last trim.
func (s *spares[T]) trim() {
	if s.least == len(s.items) {
		s.items, s.least = nil, 0
		return
	}
	s.items = slices.Delete(s.items, 0, s.least)
	s.least = len(s.items)
}

// blocks keeps memory for payloads, so that steady traffic allocates nothing.
type blocks struct{ small, full spares[[]byte] } // of smallBlock and of EntryBytes

func newBlocks(small, full int) blocks {
	return blocks{small: spares[[]byte]{most: small}, full: spares[[]byte]{most: full}}
}

const (
	smallBlock = 128            // bytes
	maxSmall   = 256            // small blocks kept for reuse: one reliable buffer
	maxRings   = 32             // rings kept for reuse: one for each lane of a Window
	maxFull    = 128 * maxRings // full blocks kept for reuse: a lane fills half of its reliable buffer
	// Full blocks kept for received pieces: two long messages of which every
	// other entry arrives in pieces.
	maxPieceRoom = 64
)

// get returns an empty block with room for size bytes, at most EntryBytes.
func (b *blocks) get(size int) []byte {
	spare, room := &b.full, EntryBytes
	if size <= smallBlock {
		spare, room = &b.small, smallBlock
	}
	if block := spare.take(); block != nil {
		return block[:0]
	}
	return make([]byte, 0, room)
}

// put returns a block. It ignores memory that is not from get (nil, slices of datagrams).
func (b *blocks) put(block []byte) {
	switch cap(block) {
	case smallBlock:
		b.small.put(block)
	case EntryBytes:
		b.full.put(block)
	}
}

// grown returns block, or a larger copy of it, with room for more bytes after its content.
func (b *blocks) grown(block []byte, more int) []byte {
	if len(block)+more <= cap(block) {
		return block
	}
	bigger := append(b.get(len(block)+more), block...)
	b.put(block)
	return bigger
}

// spare reports whether trim can free memory, now or later.
func (b *blocks) spare() bool { return len(b.small.items)+len(b.full.items) > 0 }

// trim drops the blocks that were not needed since the last trim.
func (b *blocks) trim() {
	b.small.trim()
	b.full.trim()
}
