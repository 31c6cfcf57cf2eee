package stream

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Errors for a sender that broke the protocol.
var (
	errNoCredit = errors.New("part exceeds the credit")
	errOverlap  = errors.New("parts overlap")
	errParked   = errors.New("too many parts out of order")
)

// An assembly is the reassembly buffer of a transfer. It accepts parts up to limit in any order and
// returns their content in order. It copies each part once.
type assembly struct {
	entries int   // size of a lane's reliable buffer
	base    int64 // the store has everything before this offset; set by resume
	next    int64 // offset of the first missing byte
	limit   int64 // offset up to which the sender may send

	ready  []*block // content before next that has not been taken yet, in order
	parked []*block // content beyond next, sorted by offset
	held   int64    // memory of ready and parked, in bytes
}

// minParked is the minimum of maxParked. It leaves room for all chunks that may be in flight, of
// which there are up to 1,024, and for small reliable buffers whose last entries each carry many
// small parts.
const minParked = 4096

// maxParked returns the maximum number of parts that may wait for an earlier one. It's as many as
// all lanes can have in flight if every usable entry of their reliable buffers is a part.
func (a *assembly) maxParked() int { return max(maxLanes*(a.entries-1), minParked) }

// raiseLimit lets the sender send content up to limit. A limit is never lowered, because the sender
// may have used it already.
func (a *assembly) raiseLimit(limit int64) { a.limit = max(a.limit, limit) }

// add adds a copy of p, without the bytes that are stored already. The memory that this takes may
// be 0, or even negative, because small parts are joined.
func (a *assembly) add(p part) (memory int64, err error) {
	before := a.held
	if p.end() > a.limit {
		return 0, fmt.Errorf("%w: part has bytes %d to %d; the limit is %d", errNoCredit, p.offset, p.end(), a.limit)
	}
	if p.end() <= a.base {
		return 0, nil // sent before the sender knew that we have these bytes
	}
	if p.offset < a.base {
		p.data = p.data[a.base-p.offset:]
		p.offset = a.base
	}
	if p.offset == a.next {
		err = a.extend(p)
	} else {
		err = a.park(p)
	}
	return a.held - before, err
}

// extend adds the part that begins at next, and the parked parts that now follow.
func (a *assembly) extend(p part) error {
	if len(a.parked) > 0 && p.end() > a.parked[0].offset {
		return fmt.Errorf("%w at byte %d", errOverlap, a.parked[0].offset)
	}
	a.next = p.end()
	a.queue(p)
	n := 0
	for n < len(a.parked) && a.parked[n].offset == a.next {
		a.next = a.parked[n].end()
		a.queueParked(a.parked[n])
		n++
	}
	a.parked = slices.Delete(a.parked, 0, n)
	return nil
}

// queue makes a part ready. It joins small parts into blocks of up to the size of a full part,
// because each of them would otherwise take up a block while it waits for a slow consumer.
func (a *assembly) queue(p part) {
	if n := len(a.ready); n == 0 || !a.tryJoin(a.ready[n-1], p) {
		a.ready = append(a.ready, a.copy(p))
	}
}

// tryJoin appends a part to the block before it, unless there is a gap between them or the block
// would become larger than a full part.
func (a *assembly) tryJoin(last *block, p part) (joined bool) {
	fits := last.size()+len(p.data) <= partBytes
	if !fits || last.end() != p.offset || last.index+int64(last.count) != p.index {
		return false
	}
	a.held -= last.cost()
	last.append(p.data)
	last.count += p.count
	a.held += last.cost()
	return true
}

// copy copies p into a new block, because the data of p is only valid while its message is handled.
func (a *assembly) copy(p part) *block {
	b := newBlock(len(p.data))
	b.offset = p.offset
	b.index = p.index
	b.count = p.count
	b.append(p.data)
	a.held += b.cost()
	return b
}

// queueParked makes a parked block ready. A small block goes through queue, which may join it with
// others.
func (a *assembly) queueParked(b *block) {
	if b.size() > partBytes/4 {
		a.ready = append(a.ready, b)
		return
	}
	a.held -= b.cost()
	a.queue(part{offset: b.offset, index: b.index, count: b.count, data: b.payload()})
}

// park keeps a part that begins beyond next until the missing content has arrived. It joins small
// parts, as queue does.
func (a *assembly) park(p part) error {
	byOffset := func(b *block, offset int64) int { return cmp.Compare(b.offset, offset) }
	i, found := slices.BinarySearchFunc(a.parked, p.offset, byOffset)
	overlapsPrevious := i > 0 && a.parked[i-1].end() > p.offset
	overlapsNext := i < len(a.parked) && a.parked[i].offset < p.end()
	switch {
	case p.offset < a.next, found, overlapsPrevious, overlapsNext:
		return fmt.Errorf("%w at byte %d", errOverlap, p.offset)
	case i > 0 && a.tryJoin(a.parked[i-1], p):
		return nil
	case len(a.parked) >= a.maxParked():
		return fmt.Errorf("%w: %d are waiting for byte %d", errParked, len(a.parked), a.next)
	}
	a.parked = slices.Insert(a.parked, i, a.copy(p))
	return nil
}

// end returns the offset at which the last of the parts ends.
func (a *assembly) end() int64 {
	if n := len(a.parked); n > 0 {
		return a.parked[n-1].end()
	}
	return a.next
}

// resume discards everything before base, because the store has it. The memory that
// this takes is usually negative, because blocks are freed.
func (a *assembly) resume(base int64) (memory int64) {
	before := a.held
	a.base = base
	a.next = max(a.next, base)
	a.ready = trimAll(a.ready, base)
	a.parked = trimAll(a.parked, base)
	a.held = 0
	for _, b := range slices.Concat(a.ready, a.parked) {
		a.held += b.cost()
	}

	// Parked blocks may now follow base directly.
	for len(a.parked) > 0 && a.parked[0].offset <= a.next {
		a.next = max(a.next, a.parked[0].end())
		a.queueParked(a.parked[0])
		a.parked = a.parked[1:]
	}
	return a.held - before
}

// take removes and returns the next block in order, or returns nil if there is none. The caller
// owns the block.
func (a *assembly) take() *block {
	if len(a.ready) == 0 {
		return nil
	}
	b := a.ready[0]
	a.ready[0] = nil
	a.ready = a.ready[1:]
	a.held -= b.cost()
	return b
}

// free frees all blocks, at the end of the transfer.
func (a *assembly) free() {
	for _, b := range slices.Concat(a.ready, a.parked) {
		b.Free()
	}
	a.ready = nil
	a.parked = nil
	a.held = 0
}

// trimAll frees the blocks that end before base, and trims the block that contains base.
func trimAll(blocks []*block, base int64) []*block {
	return slices.DeleteFunc(blocks, func(b *block) bool {
		if b.end() <= base {
			b.Free()
			return true
		}
		b.trimFront(base)
		return false
	})
}
