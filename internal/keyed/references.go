package keyed

import (
	"maps"
	"slices"
)

// references counts the references in a copy's items, as items are added and removed. Examining all
// items of a long list whenever one of them changed would take 0.6 ms for 12 bytes from the
// server.
type references struct {
	counts  map[uint64]refCount
	changed []uint64 // IDs that report may have to report, in order

	// The item whose references are being counted.
	sign  int             // 1 if it was added, -1 if it was removed
	visit func(id uint64) // the method count, bound once so that counting doesn't allocate
}

// A refCount is the number of references to an ID.
type refCount struct {
	items    int  // number of references in the items
	reported bool // the ID was last reported as referenced
	listed   bool // the ID is in changed
}

// count adds sign to the number of references to id.
func (r *references) count(id uint64) {
	c := r.counts[id]
	c.items += r.sign
	if !c.listed && (c.items > 0) != c.reported {
		c.listed = true
		r.changed = append(r.changed, id)
	}
	if c == (refCount{}) {
		// The count was negative, because the game had changed the list and removed a reference
		// that was never counted.
		delete(r.counts, id)
		return
	}
	if r.counts == nil {
		r.counts = make(map[uint64]refCount)
	}
	r.counts[id] = c
}

// clear removes all references.
func (r *references) clear() {
	for _, id := range slices.Sorted(maps.Keys(r.counts)) {
		r.sign = -r.counts[id].items
		r.count(id)
	}
}

// report calls visit for each ID that has become referenced or unreferenced since the last call,
// in the order in which that happened.
func (r *references) report(visit func(id uint64, referenced bool)) {
	for _, id := range r.changed {
		c := r.counts[id]
		if referenced := c.items > 0; referenced != c.reported {
			visit(id, referenced)
			c.reported = referenced
		}
		c.listed = false
		if c.reported {
			r.counts[id] = c
		} else {
			delete(r.counts, id)
		}
	}
	r.changed = r.changed[:0]
}
