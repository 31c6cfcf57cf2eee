package fragment

const (
	slabCells = 16 // number of cells allocated at a time
	cellBytes = Size + cellMeta
	cellMeta  = 8 // bytes for a cell's link and index, and its share of the list of slabs
)

// none is the link at the end of a list.
const none = ^uint16(0)

// A cell holds one fragment. Its bytes are in a slab.
type cell struct {
	next  uint16 // next cell of the same block, or next free cell
	index uint8  // the fragment's index
}

// A pool stores the fragments of all incomplete blocks in cells, of which there are at most limit.
// They all have the same size, so that the memory can't become fragmented, whatever the sizes of
// blocks.
type pool struct {
	slabs [][]byte // storage, slabCells cells each
	cells []cell
	free  uint16 // first free cell
	limit int    // maximum number of cells
	used  int    // number of cells that hold a fragment
}

func newPool(limit int) pool { return pool{free: none, limit: limit} }

// take returns a free cell. ok is false if all cells are in use and limit is reached.
func (p *pool) take() (c uint16, ok bool) {
	if p.free == none && !p.grow() {
		return none, false
	}
	c = p.free
	p.free = p.cells[c].next
	p.used++
	return c, true
}

// grow allocates another slab and adds its cells to the free list, in order. It returns false if
// there are limit cells already.
func (p *pool) grow() bool {
	n := min(slabCells, p.limit-len(p.cells))
	if n <= 0 {
		return false
	}
	if p.cells == nil {
		p.cells = make([]cell, 0, p.limit)
	}
	p.slabs = append(p.slabs, make([]byte, n*Size))
	first := len(p.cells)
	p.cells = p.cells[:first+n]
	for i := first + n - 1; i >= first; i-- {
		p.cells[i].next = p.free
		p.free = uint16(i)
	}
	return true
}

// put frees all cells of a block, of which head is the first.
func (p *pool) put(head uint16) {
	for c := head; c != none; {
		next := p.cells[c].next
		p.cells[c].next = p.free
		p.free = c
		p.used--
		c = next
	}
}

// bytes returns a cell's storage.
func (p *pool) bytes(c uint16) []byte {
	at := int(c) % slabCells * Size
	return p.slabs[int(c)/slabCells][at : at+Size]
}

// release frees all memory, unless some cell is in use.
func (p *pool) release() {
	if p.used == 0 {
		*p = newPool(p.limit)
	}
}
