package bunch

import "slices"

// spares is a stack of items for reuse, such as blocks of memory.
type spares[T any] struct {
	items    []T
	limit    int // put drops items beyond this number
	unneeded int // minimum number of items since the last trim: so many were not needed
}

// take returns the item that was put last, or the zero value if there is none.
func (s *spares[T]) take() (spare T) {
	last := len(s.items) - 1
	if last < 0 {
		return spare
	}
	spare = s.items[last]
	clear(s.items[last:])
	s.items = s.items[:last]
	s.unneeded = min(s.unneeded, last)
	return spare
}

// put adds an item, or drops it if there are enough.
func (s *spares[T]) put(spare T) {
	if len(s.items) < s.limit {
		s.items = append(s.items, spare)
	}
}

// trim drops the items that were not needed since the last trim.
func (s *spares[T]) trim() {
	if s.unneeded == len(s.items) {
		s.items = nil
		s.unneeded = 0
		return
	}
	s.items = slices.Delete(s.items, 0, s.unneeded)
	s.unneeded = len(s.items)
}

// blocks keeps memory for payloads, so that steady traffic allocates nothing.
type blocks struct{ small, full spares[[]byte] } // of smallBlock and of EntryBytes

func newBlocks(small, full int) blocks {
	return blocks{small: spares[[]byte]{limit: small}, full: spares[[]byte]{limit: full}}
}

const (
	smallBlock = 128            // bytes
	maxSmall   = 256            // small blocks kept for reuse: one reliable buffer
	maxRings   = 32             // rings kept for reuse: one for each lane of a Window
	maxFull    = 128 * maxRings // full blocks kept for reuse: a lane fills half of its reliable buffer
	// Full blocks kept for received pieces, enough for two long messages of which every
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

// put takes back a block. It ignores memory that is not from get, such as nil and slices of
// datagrams.
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
