package bunch

import "slices"

// spares is a stack of items kept for reuse, such as blocks of memory.
type spares[T any] struct {
	items    []T
	limit    int // maximum number of items; put drops items beyond it
	unneeded int // minimum number of items since the last trim
}

// take returns the item that was put back last, or the zero value if there's none.
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

// hasSpare reports whether there are any items.
func (s *spares[T]) hasSpare() bool { return len(s.items) > 0 }

// put adds an item for reuse, unless there are enough.
func (s *spares[T]) put(spare T) {
	if len(s.items) < s.limit {
		s.items = append(s.items, spare)
	}
}

// trim drops the items that haven't been needed since the last trim.
func (s *spares[T]) trim() {
	if s.unneeded == len(s.items) {
		s.items = nil
		s.unneeded = 0
		return
	}
	s.items = slices.Delete(s.items, 0, s.unneeded)
	s.unneeded = len(s.items)
}

// blocks is a pool of memory for payloads, which keeps steady traffic from allocating any.
// Small blocks have room for smallBlock bytes, full ones for EntryBytes.
type blocks struct{ small, full spares[[]byte] }

func newBlocks(small, full int) blocks {
	return blocks{small: spares[[]byte]{limit: small}, full: spares[[]byte]{limit: full}}
}

const (
	smallBlock = 128            // bytes
	maxSmall   = 256            // small blocks kept, enough for a reliable buffer
	maxRings   = 32             // rings kept, one for each channel of bulk that a transfer uses
	maxFull    = 128 * maxRings // full blocks kept, as each of them fills half a reliable buffer

	// maxPieceRoom is the maximum number of full blocks that we keep for received pieces, which is
	// enough for two long messages in which every other entry arrives in pieces.
	maxPieceRoom = 64
)

// get returns an empty block with room for size bytes, which must be at most EntryBytes.
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

// put takes a block back. It ignores memory that isn't from get, such as nil or a slice of a
// datagram.
func (b *blocks) put(block []byte) {
	switch cap(block) {
	case smallBlock:
		b.small.put(block)
	case EntryBytes:
		b.full.put(block)
	}
}

// grow returns block if it has room for more bytes after its content, and otherwise a larger
// copy of it.
func (b *blocks) grow(block []byte, more int) []byte {
	if len(block)+more <= cap(block) {
		return block
	}
	bigger := append(b.get(len(block)+more), block...)
	b.put(block)
	return bigger
}

// hasSpare reports whether there's memory that trim can free, now or later.
func (b *blocks) hasSpare() bool { return b.small.hasSpare() || b.full.hasSpare() }

// hasSpareOfBulk reports whether there are more full blocks than play needs.
func (b *blocks) hasSpareOfBulk() bool { return len(b.full.items) > maxSmall }

// trim frees the blocks that haven't been needed since the last trim.
func (b *blocks) trim() {
	b.small.trim()
	b.full.trim()
}
