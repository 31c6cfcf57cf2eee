package keyed

import (
	"maps"
	"slices"
)

// names counts the references in a copy's items as items are added and removed. Without it, a
// client examined all items of a long list for each update of one. That took 0.6 ms for 12
// bytes from the server.
type names struct {
	counts  map[uint64]named
	renamed []uint64 // IDs in counts that are listed

	// For the item being counted.
	by    int             // amount that count adds
	visit func(id uint64) // counts one reference; bound once, so that an item allocates nothing
}

// named is the state of an ID to which items refer.
type named struct {
	items  int  // number of references to the ID
	told   bool // tell has reported the ID
	listed bool // the ID is in renamed
}

// count adds by to the number of references to id.
func (n *names) count(id uint64) {
	of := n.counts[id]
	of.items += n.by
	if !of.listed && (of.items > 0) != of.told {
		of.listed = true
		n.renamed = append(n.renamed, id)
	}
	if of == (named{}) { // the game changed the list, so a reference was removed that was never counted
		delete(n.counts, id)
		return
	}
	if n.counts == nil {
		n.counts = make(map[uint64]named)
	}
	n.counts[id] = of
}

// empty removes all references.
func (n *names) empty() {
	for _, id := range slices.Sorted(maps.Keys(n.counts)) {
		n.by = -n.counts[id].items
		n.count(id)
	}
}

// tell calls visit for each ID that has become referenced or unreferenced since the last
// call, in the order in which that happened.
func (n *names) tell(visit func(id uint64, named bool)) {
	for _, id := range n.renamed {
		of := n.counts[id]
		if now := of.items > 0; now != of.told {
			visit(id, now)
			of.told = now
		}
		of.listed = false
		if of.told {
			n.counts[id] = of
		} else {
			delete(n.counts, id)
		}
	}
	n.renamed = n.renamed[:0]
}
