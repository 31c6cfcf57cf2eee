package keyed

import (
	"maps"
	"slices"
)

// names counts the references in a copy's items, as items come and go. Without it, a client would
// examine all items of a long list whenever a single one changed, which took 0.6 ms for 12 bytes
// from the server.
type names struct {
	counts  map[uint64]refCount
	renamed []uint64 // IDs that tell may have to report, in order

	// The item whose references we're counting.
	by    int             // 1 to count them, -1 to take them back
	visit func(id uint64) // the method count, bound once so that an item allocates nothing
}

// A refCount says how often the items refer to an ID.
type refCount struct {
	items  int  // number of references
	told   bool // tell has reported the ID as referenced
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
	if of == (refCount{}) {
		// The count was negative, because the game had changed the list and removed a reference
		// that was never counted.
		delete(n.counts, id)
		return
	}
	if n.counts == nil {
		n.counts = make(map[uint64]refCount)
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
