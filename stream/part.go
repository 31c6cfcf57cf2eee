package stream

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/slices"
)

const (
	// maxPartHeader is four varints at their longest.
	maxPartHeader = 4 * binary.MaxVarintLen64
	// partBytes is the payload of a full part, so that its RPC takes N = bunch.Entries(32 KiB) = 30 entries at most.
	// Article: MaxBytesPerRPC.
	partBytes = defaultRPCBytes - rpcOverhead
)

// part is what one RPC of a lane carries, a view of the message.
type part struct {
	id     uint64
	offset int64 // of the first byte of data in the content
	index  int64 // of the first element, arrays only
	count  int   // elements in data, arrays only
	data   []byte
}

func appendPartHeader(b []byte, p part) []byte {
	b = binary.AppendUvarint(b, p.id)
	b = binary.AppendUvarint(b, uint64(p.offset))
	b = binary.AppendUvarint(b, uint64(p.index))
	return binary.AppendUvarint(b, uint64(p.count))
}

// parsePart reads a message of a lane. Data aliases b and is never empty; every element takes a byte at least.
func parsePart(b []byte) (part, error) {
	p := parser{b: b}
	v := part{id: p.id(), offset: p.offset(), index: p.offset(), count: int(p.upTo(uint64(len(b))))}
	v.data = p.b
	if p.bad || len(v.data) == 0 || v.count > len(v.data) {
		return part{}, fmt.Errorf("%w: part of %d bytes", errMalformed, len(b))
	}
	return v, nil
}

// block is a run of content in memory of its own. The payload stands behind room for a part's header, so that the
// message which carries it needs no copy.
type block struct {
	offset int64
	index  int64
	count  int
	buf    []byte // maxPartHeader, then the payload
	pooled *[blockBytes]byte
	holder *budget.Holding // of the transfer that it was read for; nil = none
	held   int64           // bytes that the holder has noted
}

const blockBytes = maxPartHeader + partBytes

// pool holds the memory of full parts; the garbage collector bounds it.
var pool = sync.Pool{New: func() any { return new([blockBytes]byte) }}

// newBlock returns an empty block with room for size bytes at least, and little more.
func newBlock(size int) *block {
	if size <= partBytes*7/8 || size > partBytes {
		return &block{buf: make([]byte, maxPartHeader, maxPartHeader+size)}
	}
	return fullBlock(partBytes)
}

// fullBlock returns an empty block for a part of at most so many bytes. Larger ones than partBytes are not pooled.
func fullBlock(most int) *block {
	if most > partBytes {
		return &block{buf: make([]byte, maxPartHeader, maxPartHeader+most)}
	}
	memory := pool.Get().(*[blockBytes]byte)
	return &block{buf: memory[: maxPartHeader : maxPartHeader+most], pooled: memory}
}

func (c *block) payload() []byte { return c.buf[maxPartHeader:] }
func (c *block) size() int       { return len(c.buf) - maxPartHeader }
func (c *block) end() int64      { return c.offset + int64(c.size()) }
func (c *block) room() []byte    { return c.buf[len(c.buf):cap(c.buf)] }
func (c *block) append(p []byte) { c.buf = append(c.buf, p...) }

// blockCost is a block without its buffer, and its places in slices.
const blockCost = 128

// cost is the memory that a block takes.
func (c *block) cost() int64 { return slices.Allocated(int64(cap(c.buf))) + blockCost }

// heldBytes is what so many bytes of parts take at the most: what the allocator adds, the blocks' own bytes, and a block
// that is not full.
func heldBytes(n int64) int64 { return n + n/4 + 2*blockBytes }

// noteIn has h know of the block until it is freed.
func (c *block) noteIn(h *budget.Holding) {
	c.holder, c.held = h, c.cost()
	h.Take(c.held)
}

// message puts the header before the payload, in place; c.offset stays what it was.
func (c *block) message(id uint64) []byte {
	var scratch [maxPartHeader]byte
	head := appendPartHeader(scratch[:0], part{id: id, offset: c.offset, index: c.index, count: c.count})
	start := maxPartHeader - len(head)
	copy(c.buf[start:], head)
	return c.buf[start:]
}

// trim drops the payload below offset.
func (c *block) trim(offset int64) {
	if n := int(offset - c.offset); n > 0 {
		kept := copy(c.payload(), c.payload()[n:])
		c.buf = c.buf[:maxPartHeader+kept]
		c.offset = offset
	}
}

// cut takes the payload below offset off the front, into a block of its own.
func (c *block) cut(offset int64) *block {
	front := newBlock(int(offset - c.offset))
	front.offset = c.offset
	front.append(c.payload()[:offset-c.offset])
	if c.holder != nil {
		front.noteIn(c.holder)
	}
	c.trim(offset)
	return front
}

// Free gives the memory back. The block and its views are dead afterwards.
func (c *block) Free() {
	if c.pooled != nil {
		pool.Put(c.pooled)
	}
	c.pooled, c.buf = nil, nil
	if h := c.holder; h != nil {
		c.holder = nil
		h.Give(c.held)
	}
}
