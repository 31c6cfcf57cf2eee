package relevancy

// The cells are a hash table with chains, of this package's own: unlike a map's, its memory grows with the most cells that were ever
// in use at once, and not with how many came and went.

// hash spreads neighbours. The factors are odd and large, as in Fibonacci hashing.
func (k key) hash() uint64 {
	h := uint64(uint32(k.x))*0x9e3779b97f4a7c15 ^ uint64(uint32(k.y))*0xc2b2ae3d27d4eb4f ^ uint64(uint32(k.z))*0x165667b19e3779f9 ^ uint64(uint32(k.level))*0x27d4eb2f165667c5
	return h ^ h>>32
}

// head returns where the chain of a key begins.
func (g *Grid) head(k key) *int32 { return &g.heads[k.hash()&uint64(len(g.heads)-1)] }

// find returns the number of a cell, -1 when nothing is there.
func (g *Grid) find(k key) int32 {
	if len(g.heads) == 0 {
		return -1
	}
	at := *g.head(k)
	for at >= 0 && g.cells[at].key != k {
		at = g.cells[at].next
	}
	return at
}

// insert puts an item that is nowhere into its cell.
func (g *Grid) insert(k key, e entry) {
	at := g.find(k)
	if at < 0 {
		at = g.acquire(k)
	}
	c := &g.cells[at]
	g.items[e.id] = item{cell: at + 1, at: int32(len(c.entries))}
	c.entries = append(c.entries, e)
	g.count(k.level, 1)
}

// acquire makes a cell for a key that has none.
func (g *Grid) acquire(k key) int32 {
	if n := len(g.free); n > 0 {
		at := g.free[n-1]
		g.free = g.free[:n-1]
		g.cells[at].key, g.cells[at].inverse = k, inverseOf(k.level)
		g.link(at)
		return at
	}
	g.cells = append(g.cells, cell{key: k, inverse: inverseOf(k.level)})
	at := int32(len(g.cells) - 1)
	if len(g.cells) > len(g.heads) {
		g.grow()
	} else {
		g.link(at)
	}
	return at
}

// link puts a cell into its chain.
func (g *Grid) link(at int32) {
	head := g.head(g.cells[at].key)
	g.cells[at].next = *head
	*head = at
}

// grow makes room for the hashes of more cells. None is free now.
func (g *Grid) grow() {
	g.heads = make([]int32, max(64, 2*len(g.heads)))
	for i := range g.heads {
		g.heads[i] = -1
	}
	for at := range g.cells {
		g.link(int32(at))
	}
}

// release takes an empty cell out of its chain.
func (g *Grid) release(at int32) {
	link := g.head(g.cells[at].key)
	for *link != at {
		link = &g.cells[*link].next
	}
	*link = g.cells[at].next
	g.free = append(g.free, at)
}
