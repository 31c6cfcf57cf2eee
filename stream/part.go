package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/pages"
	"github.com/quivernet/quiver/internal/slices"
)

const (
	// maxPartHeader is the maximum size of a part's header, which consists of four varints.
	maxPartHeader = 4 * binary.MaxVarintLen64
	// partBytes is the payload of a full part. The RPC that carries it has at most defaultRPCBytes,
	// which is 32 KiB, and takes up 30 entries in a reliable buffer.
	partBytes = defaultRPCBytes - rpcOverhead
)

// A part is a contiguous piece of a transfer's content. It's sent as a single message: an RPC on a
// lane (a channel reserved for transfers) or, if the transfer uses [Slices], a chunk.
type part struct {
	id     uint64 // of the transfer
	offset int64  // where data begins in the content, in bytes
	index  int64  // of the first element; arrays only
	count  int    // elements in data; arrays only
	data   []byte // bytes of a blob, or encoded elements of an array
}

// end returns the offset at which the part's data ends in the content.
func (p part) end() int64 { return p.offset + int64(len(p.data)) }

func appendPartHeader(b []byte, p part) []byte {
	b = binary.AppendUvarint(b, p.id)
	b = binary.AppendUvarint(b, uint64(p.offset))
	b = binary.AppendUvarint(b, uint64(p.index))
	return binary.AppendUvarint(b, uint64(p.count))
}

// parsePart parses a part received from the peer. The part's data is never empty, and aliases b.
func parsePart(b []byte) (part, error) {
	r := parse(b)
	p := part{
		id:     r.id(),
		offset: r.offset(),
		index:  r.offset(),
		count:  int(r.Uvarint(uint64(len(b)))),
	}
	p.data = r.Left
	// Every element has at least one byte, so a part can't have more elements than bytes.
	if r.Err != nil || len(p.data) == 0 || p.count > len(p.data) {
		return part{}, fmt.Errorf("%w: part message of %d bytes", errMalformed, len(b))
	}
	return p, nil
}

// A block buffers a piece of content between the source and the network, or between the network and
// the application.
//
// The buffer starts with room for a part's header, so that message can put the header there when
// the block is sent, without copying the payload.
//
// A block has one owner at a time, who must either pass it on or free it.
type block struct {
	offset int64  // where the payload begins in the content, in bytes
	index  int64  // of the first element; arrays only
	count  int    // elements in the payload; arrays only
	buf    []byte // maxPartHeader bytes, then the payload

	page *pages.Page // backs buf until Free returns it to the pool; nil if buf is on the heap

	// Outgoing blocks are charged to the memory that their transfer may hold.
	holding      *budget.Holding // the transfer's, set by chargeTo; nil for incoming blocks
	charged      int64           // bytes taken from holding: the cost when chargeTo was called
	sentAsSlices bool            // when Free is called, the peer has acked all of it
}

// blockBytes is the size of a full part's buffer, just under a page.
const blockBytes = maxPartHeader + partBytes

// minPageBytes is the size above which blocks are backed by pages. Pages are pooled and therefore
// cheap, but a small block would waste most of one. This limit wastes at most an eighth.
const minPageBytes = partBytes * 7 / 8

// newBlock returns an empty block with room for at least size bytes.
func newBlock(size int) *block {
	if size > minPageBytes {
		return newPageBlock(max(size, partBytes))
	}
	return newHeapBlock(size)
}

// newPageBlock returns an empty block with room for size bytes. It's backed by a page unless a
// page is too small.
func newPageBlock(size int) *block {
	if size > partBytes {
		return newHeapBlock(size)
	}
	page := pages.Take()
	return &block{buf: page[: maxPartHeader : maxPartHeader+size], page: page}
}

func newHeapBlock(size int) *block {
	return &block{buf: make([]byte, maxPartHeader, maxPartHeader+size)}
}

func (b *block) payload() []byte { return b.buf[maxPartHeader:] }
func (b *block) size() int       { return len(b.buf) - maxPartHeader }
func (b *block) end() int64      { return b.offset + int64(b.size()) }
func (b *block) room() []byte    { return b.buf[len(b.buf):cap(b.buf)] }
func (b *block) append(p []byte) { b.buf = append(b.buf, p...) }

// message returns the block as a message to the peer: a part's header, followed by the payload.
// It writes the header into the block's own buffer, so the message is valid until Free.
func (b *block) message(id uint64) []byte {
	var scratch [maxPartHeader]byte
	p := part{id: id, offset: b.offset, index: b.index, count: b.count}
	header := appendPartHeader(scratch[:0], p)

	// The header is usually shorter than its room. Put it at the end of the room, next to the
	// payload.
	start := maxPartHeader - len(header)
	copy(b.buf[start:], header)
	return b.buf[start:]
}

// trimFront discards the payload before offset, if there is any.
func (b *block) trimFront(offset int64) {
	n := int(offset - b.offset)
	if n <= 0 {
		return
	}
	// Move the rest of the payload to the front, because the header's room must be right before it.
	rest := copy(b.payload(), b.payload()[n:])
	b.buf = b.buf[:maxPartHeader+rest]
	b.offset = offset
}

// cutFront moves the payload before offset into a new block, which it returns. The block must be
// from a blob, since an array's elements can't be divided at a byte offset.
func (b *block) cutFront(offset int64) *block {
	n := int(offset - b.offset)
	front := newBlock(n)
	front.offset = b.offset
	front.append(b.payload()[:n])
	if b.holding != nil {
		front.chargeTo(b.holding)
	}
	b.trimFront(offset)
	return front
}

// blockOverhead is the memory that a block uses in addition to its buffer: the struct and the
// lists' pointers to it.
const blockOverhead = 128

// cost returns how much memory the block uses.
func (b *block) cost() int64 { return slices.Allocated(int64(cap(b.buf))) + blockOverhead }

// heldBytes returns the maximum memory that n bytes of content can use while they are in blocks.
//
// n/4 covers the allocator's rounding, which is largest just above 32 KiB, where an allocation uses
// 40 KiB (see slices.Allocated). Two more blocks cover blockOverhead and blocks that aren't full.
func heldBytes(n int64) int64 { return n + n/4 + 2*blockBytes }

// chargeTo charges the block to h until it's freed.
func (b *block) chargeTo(h *budget.Holding) {
	b.holding = h
	b.charged = b.cost()
	h.Take(b.charged)
}

// Free releases the block's memory. The block, its payload and any message made from it must not be
// used afterwards.
func (b *block) Free() {
	if b.page != nil {
		pages.Give(b.page)
	}
	b.page = nil
	b.buf = nil

	h := b.holding
	if h == nil {
		return
	}
	b.holding = nil // a second Free must not give the same bytes back again
	if b.sentAsSlices {
		h.Acked(b.charged)
	}
	h.Give(b.charged)
}

const (
	// maxReadAhead is the maximum amount of content that the reader reads before a tick takes it.
	// Sixty ticks a second that each take this much send 31 MB/s.
	maxReadAhead = 512 << 10
	// firstReadAhead is the maximum at first. It doubles whenever ticks drain the queue, unless the
	// path is full (most of what was sent is still queued), since many transfers would then tie up
	// memory for nothing.
	firstReadAhead = 128 << 10
)

// A readQueue has the blocks that the reader has read but no tick has taken. It's guarded by
// reader.mu.
type readQueue struct {
	blocks []*block // in order
	bytes  int      // of content in blocks
	limit  int      // on bytes, up to which the reader reads; see widenIfDrained
	peak   int      // maximum of bytes since widenIfDrained last found the queue empty
}

func (q *readQueue) empty() bool { return len(q.blocks) == 0 }

// full reports whether the reader is far enough ahead of the ticks.
func (q *readQueue) full() bool { return q.bytes >= q.limit }

// tryJoin copies the content of b to the end of the last block, so that many small reads don't
// become many small parts. It returns false if there is no last block, or if the content doesn't
// fit into that block's buffer or would exceed partSize. The buffer mustn't grow, because the block
// has already been charged for it. The caller still owns b.
func (q *readQueue) tryJoin(b *block, partSize int) (joined bool) {
	if q.empty() {
		return false
	}
	last := q.blocks[len(q.blocks)-1]
	if b.size() > len(last.room()) || last.size()+b.size() > partSize {
		return false
	}
	last.append(b.payload())
	last.count += b.count
	q.noteAdded(b.size())
	return true
}

// add appends b to the queue, which takes ownership of it.
func (q *readQueue) add(b *block) {
	q.blocks = append(q.blocks, b)
	q.noteAdded(b.size())
}

// noteAdded records that n bytes were added.
func (q *readQueue) noteAdded(n int) {
	q.bytes += n
	q.peak = max(q.peak, q.bytes)
}

// mayTake reports whether take may be called with limit. The queue must not be empty.
//
// Only the first block of a blob may be cut, so that some of it can be sent along with the header,
// before the receiver has granted credit. An array's elements can't be cut.
func (q *readQueue) mayTake(limit int64) bool {
	first := q.blocks[0]
	mayCut := first.offset == 0 && first.count == 0 // the first block of a blob
	return first.end() <= limit || mayCut && limit > 0
}

// take removes and returns the first block. If the block ends beyond limit, take cuts it there and
// leaves the rest in the queue.
func (q *readQueue) take(limit int64) *block {
	b := q.blocks[0]
	if b.end() > limit {
		b = b.cutFront(limit)
	} else {
		q.blocks[0] = nil
		q.blocks = q.blocks[1:]
	}
	q.bytes -= b.size()
	return b
}

// widenIfDrained raises the limit if the queue was full and ticks emptied it before the reader
// could refill it. If the path is full, the limit stays, because reading further ahead wouldn't
// make the transfer any faster.
func (q *readQueue) widenIfDrained(pathFull bool) {
	if q.bytes > 0 {
		return
	}
	if q.peak >= q.limit && !pathFull {
		q.limit = min(2*q.limit, maxReadAhead)
	}
	q.peak = 0
}

// trim discards the content before offset.
func (q *readQueue) trim(offset int64) {
	q.blocks = trimAll(q.blocks, offset)
	q.bytes = 0
	for _, b := range q.blocks {
		q.bytes += b.size()
	}
}

// free frees all blocks.
func (q *readQueue) free() {
	for _, b := range q.blocks {
		b.Free()
	}
	q.blocks = nil
	q.bytes = 0
}
