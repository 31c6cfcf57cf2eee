package stream

import (
	"encoding/binary"
	"fmt"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/pages"
	"github.com/quivernet/quiver/internal/slices"
)

// Limits of one RPC of the streamer.
const (
	// defaultRPCBytes is the article's 32 KiB: half of the largest bunch.
	defaultRPCBytes = 32 << 10
	// maxRPCBytes is the largest bunch. UE: net.MaxConstructedPartialBunchSizeBytes.
	maxRPCBytes = 65536
	// rpcOverhead is the room in each RPC for the method's id, a part's header,
	// and the headers of msgpack's arrays.
	rpcOverhead = 64
	// maxElementBytes is the size of the largest element: it is alone in the largest RPC.
	maxElementBytes = maxRPCBytes - rpcOverhead
)

// elementsPerRPC returns how many elements of at most elementSize bytes go into
// one RPC of maxBytes; 0 = 32 KiB. An element larger than maxBytes is sent alone.
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

// elementBound is the worst-case encoded size of an element.
type elementBound struct {
	bytes int
	holds bool // no value exceeds it: every value of the type has the same size
}

// boundOf returns the bound of elements with codec c: given or, if that is 0,
// the bound of their type.
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
	// partBytes is the payload of a full part. Its RPC has at most 32 KiB, the
	// article's MaxBytesPerRPC: 30 entries of a reliable buffer.
	partBytes = defaultRPCBytes - rpcOverhead
)

// A part is a piece of content: the payload of one RPC on a lane, or of one chunk.
type part struct {
	id     uint64
	offset int64  // of the first byte of data in the content
	index  int64  // of the first element, arrays only
	count  int    // elements in data, arrays only
	data   []byte // elements in data, arrays only
}

func appendPartHeader(b []byte, p part) []byte {
	b = binary.AppendUvarint(b, p.id)
	b = binary.AppendUvarint(b, uint64(p.offset))
	b = binary.AppendUvarint(b, uint64(p.index))
	return binary.AppendUvarint(b, uint64(p.count))
}

// parsePart parses a part. Its data aliases b and is not empty, and there are
// at least as many bytes as elements.
func parsePart(b []byte) (part, error) {
	p := parse(b)
	v := part{id: p.id(), offset: p.offset(), index: p.offset(), count: int(p.Uvarint(uint64(len(b))))}
	v.data = p.Left
	if p.Err != nil || len(v.data) == 0 || v.count > len(v.data) {
		return part{}, fmt.Errorf("%w: part of %d bytes", errMalformed, len(b))
	}
	return v, nil
}

// A block is a piece of content in memory of its own. There is room for a part's
// header before the payload, so that the message with both needs no copy.
type block struct {
	offset int64           // of the first byte in the content
	index  int64           // of the first element, arrays only
	count  int             // elements, arrays only
	buf    []byte          // maxPartHeader bytes, then the payload
	page   *pages.Page     // to be returned by Free; nil = none
	holder *budget.Holding // the outgoing transfer that it was read for; nil = none
	held   int64           // bytes charged to holder
	sliced bool            // the machine of slices has it, and frees it once the peer has acknowledged all of it
}

// blockBytes is the memory of a full part: nearly a page.
const blockBytes = maxPartHeader + partBytes

// newBlock returns an empty block with room for size bytes or a little more: a
// page if size is nearly that of a full part.
func newBlock(size int) *block {
	if size <= partBytes*7/8 || size > partBytes {
		return &block{buf: make([]byte, maxPartHeader, maxPartHeader+size)}
	}
	return fullBlock(partBytes)
}

// fullBlock returns an empty block with room for most bytes: a page unless that
// is more than a full part.
func fullBlock(most int) *block {
	if most > partBytes {
		return &block{buf: make([]byte, maxPartHeader, maxPartHeader+most)}
	}
	page := pages.Take()
	return &block{buf: page[: maxPartHeader : maxPartHeader+most], page: page}
}

func (b *block) payload() []byte { return b.buf[maxPartHeader:] }
func (b *block) size() int       { return len(b.buf) - maxPartHeader }
func (b *block) end() int64      { return b.offset + int64(b.size()) }
func (b *block) room() []byte    { return b.buf[len(b.buf):cap(b.buf)] }
func (b *block) append(p []byte) { b.buf = append(b.buf, p...) }

// blockCost is the memory of a block besides its buffer, including its places in lists.
const blockCost = 128

// cost returns the memory of the block.
func (b *block) cost() int64 { return slices.Allocated(int64(cap(b.buf))) + blockCost }

// heldBytes returns the most memory that n bytes of parts take, including the
// allocator's rounding, the blocks themselves, and blocks that are not full.
func heldBytes(n int64) int64 { return n + n/4 + 2*blockBytes }

// chargeTo charges the block to h until it is freed.
func (b *block) chargeTo(h *budget.Holding) {
	b.holder, b.held = h, b.cost()
	h.Take(b.held)
}

// message writes the part's header in front of the payload, in place, and returns both.
func (b *block) message(id uint64) []byte {
	var scratch [maxPartHeader]byte
	head := appendPartHeader(scratch[:0], part{id: id, offset: b.offset, index: b.index, count: b.count})
	start := maxPartHeader - len(head)
	copy(b.buf[start:], head)
	return b.buf[start:]
}

// trim drops the payload below offset.
func (b *block) trim(offset int64) {
	if n := int(offset - b.offset); n > 0 {
		kept := copy(b.payload(), b.payload()[n:])
		b.buf = b.buf[:maxPartHeader+kept]
		b.offset = offset
	}
}

// cut moves the payload below offset into a block of its own and returns that.
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
