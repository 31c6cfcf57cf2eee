package keyed

import (
	"maps"
	"slices"
)

// names counts the references in the items of a copy, as they are added and
// removed. A client that examined all items of a long list for each update of
// one took 0.6 ms, for 12 bytes from its server.
type names struct {
	counts  map[uint64]named
	renamed []uint64 // ids in counts that are listed

	// For the item that is being counted.
	by    int             // what count adds
	visit func(id uint64) // counts one reference; bound once, so that an item allocates nothing
}

// named is what names knows about an id that items refer to.
type named struct {
	items  int  // number of references to it
	told   bool // tell has reported it
	listed bool // it is in renamed
}

// count adds by to the number of references to id.
func (n *names) count(id uint64) {
	of := n.counts[id]
	if of.items += n.by; !of.listed && (of.items > 0) != of.told {
		of.listed = true
		n.renamed = append(n.renamed, id)
	}
	if of == (named{}) { // the game had written to the list, so that a reference was removed that was never counted
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

// tell calls visit for each id to which there is a reference now and was none
// at the last call, or the other way round, in the order in which that changed.
func (n *names) tell(visit func(id uint64, named bool)) {
	for _, id := range n.renamed {
		of := n.counts[id]
		if now := of.items > 0; now != of.told {
			visit(id, now)
			of.told = now
		}
		if of.listed = false; of.told {
			n.counts[id] = of
		} else {
			delete(n.counts, id)
		}
	}
	n.renamed = n.renamed[:0]
}
