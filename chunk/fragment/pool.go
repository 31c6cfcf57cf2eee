package fragment

const (
	slabCells = 16 // how many cells are allocated at a time
	cellBytes = Size + cellMeta
	cellMeta  = 8 // bytes of a cell's link and index, and of its share of the list of slabs
)

// none is the link at the end of a list.
const none = ^uint16(0)

// A cell describes what a piece of storage holds.
type cell struct {
	next  uint16 // in its block's list, or in the list of free cells
	index uint8  // of the fragment
}

// A pool is the storage of all fragments of a peer: at most limit cells of Size
// bytes each, so that no pattern of sizes and of frees leaves gaps in memory.
type pool struct {
	slabs [][]byte
	cells []cell
	free  uint16
	limit int
	used  int
}

func newPool(limit int) pool { return pool{free: none, limit: limit} }

// take returns a free cell. ok is false if limit cells are in use.
func (p *pool) take() (c uint16, ok bool) {
	if p.free == none && !p.grow() {
		return none, false
	}
	c = p.free
	p.free = p.cells[c].next
	p.used++
	return c, true
}

// grow allocates a slab of cells and adds them to the list of free ones, in order.
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

// put frees a list of cells.
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

// release frees the storage if none of it is in use.
func (p *pool) release() {
	if p.used == 0 {
		*p = newPool(p.limit)
	}
}
