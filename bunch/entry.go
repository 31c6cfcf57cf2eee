package bunch

import "slices"

// maxPieces is the most pieces into which an entry is cut.
const maxPieces = 6

// piece is a range of an entry's bytes. A piece in flight is never cut, so that a late ack of an earlier, larger range
// always covers whole pieces.
type piece struct {
	off, end uint16 // from off to end-1
	copies   uint16 // packets in flight that carry it; no more than sentPackets holds
	queued   bool   // it waits to leave, for the first time or again
	sent     bool   // it left at least once
	acked    bool
}

// entry is one slot of the reliable buffer: a whole bunch with one or more messages, or a part of a long message.
type entry struct {
	payload  []byte // from Conn.blocks
	flags    byte   // of the bunch's header
	started  bool   // a piece was sent: no message merges into the entry any more, and its cost is charged
	resend   bool   // it stands in its channel's resend queue
	pieces   [maxPieces]piece
	n        uint8 // pieces in use, at least 1; they cover the payload in order
	messages uint8 // messages in a whole bunch; else 1
	runPrice int32 // in the first entry of a long message: the price of all its entries
}

// init makes the entry one piece that waits to leave.
func (e *entry) init(flags byte, payload []byte) {
	*e = entry{payload: payload, flags: flags, n: 1, messages: 1}
	e.pieces[0] = piece{end: uint16(len(payload)), queued: true}
}

func (e *entry) all() []piece { return e.pieces[:e.n] }

// queued returns the index of the first piece that waits to leave, or -1.
func (e *entry) queued() int {
	for i := range e.all() {
		if p := &e.pieces[i]; p.queued && !p.acked {
			return i
		}
	}
	return -1
}

// alone returns the index of the piece that has exactly the bytes of it, if the packet that carried it is the only one in flight with the
// piece and no copy waits to leave; else -1.
func (e *entry) alone(it item) int {
	for i := range e.all() {
		if p := &e.pieces[i]; p.off == it.off && p.end == it.end && p.copies == 1 && !p.queued && !p.acked {
			return i
		}
	}
	return -1
}

// acked reports whether the peer has acknowledged every piece.
func (e *entry) acked() bool {
	for i := range e.all() {
		if !e.pieces[i].acked {
			return false
		}
	}
	return true
}

// cost returns the bytes that are charged to the peer's limit when the first piece of the entry leaves. The first entry of a long message
// pays for all of its entries, so that the others may always follow: the peer raises no limit for half a message.
func (e *entry) cost() int {
	switch e.flags & flagWhole {
	case flagWhole:
		return price(e.flags, len(e.payload), int(e.messages))
	case flagBegin:
		return int(e.runPrice)
	}
	return 0
}

// cut splits piece i so that its first part has size bytes, and reports whether that was possible.
func (e *entry) cut(i, size int) bool {
	p := &e.pieces[i]
	if e.n == maxPieces || p.copies > 0 || size <= 0 || size >= int(p.end-p.off) {
		return false
	}
	copy(e.pieces[i+2:], e.pieces[i+1:e.n])
	e.n++
	mid := p.off + uint16(size)
	e.pieces[i+1] = piece{off: mid, end: p.end, queued: p.queued, sent: p.sent}
	p.end = mid
	return true
}

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

// blocks keeps payload memory for reuse, so that steady traffic allocates nothing.
type blocks struct{ small, full spares[[]byte] } // of smallBlock and of EntryBytes

func newBlocks(most int) blocks {
	return blocks{small: spares[[]byte]{most: most}, full: spares[[]byte]{most: most}}
}

const (
	smallBlock = 128 // bytes
	maxSpare   = 256 // blocks of each kind kept for reuse: one reliable buffer
	maxRings   = 32  // rings kept for reuse: one for each lane of a Window
	maxInSpare = 64  // blocks of each kind kept for arriving pieces: two long messages, of which every other entry comes in pieces
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

// put takes a block back. Memory that is not from get (nil, slices of datagrams) is left to the collector.
func (b *blocks) put(block []byte) {
	switch cap(block) {
	case smallBlock:
		b.small.put(block)
	case EntryBytes:
		b.full.put(block)
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

// spare reports whether trim can give up memory, now or later.
func (b *blocks) spare() bool { return len(b.small.items)+len(b.full.items) > 0 }

func (b *blocks) trim() {
	b.small.trim()
	b.full.trim()
}
