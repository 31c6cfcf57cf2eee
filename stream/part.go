package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/pages"
	"github.com/quivernet/quiver/internal/slices"
)

// Limits of one RPC that carries elements.
const (
	// defaultRPCBytes is the article's 32 KiB: half of the largest bunch.
	defaultRPCBytes = 32 << 10
	// maxRPCBytes is the size of the largest bunch. UE:
	// net.MaxConstructedPartialBunchSizeBytes.
	maxRPCBytes = 65536
	// rpcOverhead is the room in each RPC for the method's id, a part's header, and the
	// headers of msgpack arrays.
	rpcOverhead = 64
	// maxElementBytes is the size of the largest element, which is alone in the largest RPC.
	maxElementBytes = maxRPCBytes - rpcOverhead
)

// elementsPerRPC returns the number of elements of at most elementSize bytes that go into one
// RPC of maxBytes, where 0 means 32 KiB. An element larger than maxBytes is sent alone.
func elementsPerRPC(maxBytes, elementSize int) (int, error) {
	if maxBytes == 0 {
		maxBytes = defaultRPCBytes
	}
	switch {
	case maxBytes < 0 || maxBytes > maxElementBytes:
		return 0, fmt.Errorf("MaxBytesPerRPC is %d, but one RPC holds 1 to %d bytes (a bunch of %d less %d for headers)",
			maxBytes, maxElementBytes, maxRPCBytes, rpcOverhead)
	case elementSize < 1:
		return 0, fmt.Errorf("element size %d is not positive", elementSize)
	case elementSize > maxElementBytes:
		return 0, fmt.Errorf("an element may take %d bytes, but one RPC holds %d (a bunch of %d less %d for headers); "+
			"lower its bounds or split it", elementSize, maxElementBytes, maxRPCBytes, rpcOverhead)
	}
	return max(1, maxBytes/elementSize), nil
}

// elementBound is the maximum encoded size of an element.
type elementBound struct {
	bytes int
	holds bool // no value exceeds bytes, because all values of the type have the same size
}

// boundOf returns the bound of elements with codec c. It is given or, if given is 0, the bound
// of their type.
func boundOf(c *codec.Codec, given int) (elementBound, error) {
	size := c.Size()
	switch {
	case given == 0:
		return elementBound{bytes: size.Most, holds: size.Fixed}, size.Unbounded
	case given < size.Least:
		return elementBound{}, fmt.Errorf("MaxElementBytes is %d, but every element takes at least %d bytes", given, size.Least)
	}
	return elementBound{bytes: given}, nil
}

const (
	// maxPartHeader is the size of four of the longest varints.
	maxPartHeader = 4 * binary.MaxVarintLen64
	// partBytes is the payload of a full part. Its RPC has at most 32 KiB, the article's
	// MaxBytesPerRPC, and takes 30 entries of a reliable buffer.
	partBytes = defaultRPCBytes - rpcOverhead
)

// A part is a piece of content: the payload of one RPC on a lane, or of one chunk.
type part struct {
	id     uint64
	offset int64  // of the first byte of data in the content
	index  int64  // of the first element; arrays only
	count  int    // elements in data; arrays only
	data   []byte // bytes of a blob, or encoded elements of an array
}

func appendPartHeader(b []byte, p part) []byte {
	b = binary.AppendUvarint(b, p.id)
	b = binary.AppendUvarint(b, uint64(p.offset))
	b = binary.AppendUvarint(b, uint64(p.index))
	return binary.AppendUvarint(b, uint64(p.count))
}

// parsePart parses a part. Its data aliases b and is not empty. It has at least as many bytes
// as elements.
func parsePart(b []byte) (part, error) {
	p := parse(b)
	v := part{
		id:     p.id(),
		offset: p.offset(),
		index:  p.offset(),
		count:  int(p.Uvarint(uint64(len(b)))),
	}
	v.data = p.Left
	if p.Err != nil || len(v.data) == 0 || v.count > len(v.data) {
		return part{}, fmt.Errorf("%w: part of %d bytes", errMalformed, len(b))
	}
	return v, nil
}

// A block is a piece of content in memory of its own. It has room for a part's header before
// the payload, so a message with both needs no copy.
type block struct {
	offset int64           // of the first byte in the content
	index  int64           // of the first element; arrays only
	count  int             // number of elements; arrays only
	buf    []byte          // maxPartHeader bytes, then the payload
	page   *pages.Page     // returned by Free; nil if buf is no page
	holder *budget.Holding // the outgoing transfer that it was read for; nil if it is incoming
	held   int64           // bytes charged to holder
	sliced bool            // the machine of slices has it, and frees it when the peer has acknowledged all of it
}

// blockBytes is the memory of a full part, nearly a page.
const blockBytes = maxPartHeader + partBytes

// newBlock returns an empty block with room for size bytes or slightly more. It uses a page if
// size is nearly that of a full part.
func newBlock(size int) *block {
	if size <= partBytes*7/8 || size > partBytes {
		return &block{buf: make([]byte, maxPartHeader, maxPartHeader+size)}
	}
	return fullBlock(partBytes)
}

// fullBlock returns an empty block with room for size bytes. It uses a page, unless that is
// less than size.
func fullBlock(size int) *block {
	if size > partBytes {
		return &block{buf: make([]byte, maxPartHeader, maxPartHeader+size)}
	}
	page := pages.Take()
	return &block{buf: page[: maxPartHeader : maxPartHeader+size], page: page}
}

func (b *block) payload() []byte { return b.buf[maxPartHeader:] }
func (b *block) size() int       { return len(b.buf) - maxPartHeader }
func (b *block) end() int64      { return b.offset + int64(b.size()) }
func (b *block) room() []byte    { return b.buf[len(b.buf):cap(b.buf)] }
func (b *block) append(p []byte) { b.buf = append(b.buf, p...) }

// blockCost is the memory of a block without its buffer. It includes the block's places in
// lists.
const blockCost = 128

// cost returns the memory of the block.
func (b *block) cost() int64 { return slices.Allocated(int64(cap(b.buf))) + blockCost }

// heldBytes returns the maximum memory that n bytes of parts take. It includes the allocator's
// rounding, the blocks themselves, and blocks that are not full.
func heldBytes(n int64) int64 { return n + n/4 + 2*blockBytes }

// chargeTo charges the block to h until it is freed.
func (b *block) chargeTo(h *budget.Holding) {
	b.holder = h
	b.held = b.cost()
	h.Take(b.held)
}

// message writes the part's header directly before the payload, in place, and returns both.
func (b *block) message(id uint64) []byte {
	var scratch [maxPartHeader]byte
	head := appendPartHeader(scratch[:0], part{id: id, offset: b.offset, index: b.index, count: b.count})
	start := maxPartHeader - len(head)
	copy(b.buf[start:], head)
	return b.buf[start:]
}

// trim drops the payload before offset.
func (b *block) trim(offset int64) {
	n := int(offset - b.offset)
	if n <= 0 {
		return
	}
	kept := copy(b.payload(), b.payload()[n:])
	b.buf = b.buf[:maxPartHeader+kept]
	b.offset = offset
}

// cut moves the payload before offset into a new block, and returns that block.
func (b *block) cut(offset int64) *block {
	front := newBlock(int(offset - b.offset))
	front.offset = b.offset
	front.append(b.payload()[:offset-b.offset])
	if b.holder != nil {
		front.chargeTo(b.holder)
	}
	b.trim(offset)
	return front
}

// Free frees the memory. The block and its payload must not be used afterwards.
func (b *block) Free() {
	if b.page != nil {
		pages.Give(b.page)
	}
	b.page, b.buf = nil, nil
	if h := b.holder; h != nil {
		b.holder = nil
		if b.sliced {
			h.Acked(b.held)
		}
		h.Give(b.held)
	}
}
