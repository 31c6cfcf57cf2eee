package bunch

import (
	"cmp"
	"slices"
)

// parked holds the entries of a channel that arrived early or only in part, ordered by sequence.
// It's a list rather than a ring, so that its memory depends on the number of these entries, and
// not on how far ahead the peer is.
type parked struct{ queue[*slot] }

// keptParked is the number of entries that an empty list keeps room for. channelCost
// accounts for this memory.
const keptParked = 8

// find returns the index of entry n, or where to insert it if it isn't there.
func (p *parked) find(n uint64) (i int, ok bool) {
	if p.len() == 0 || p.at(p.len()-1).number < n {
		// This is the usual case, because most entries arrive in order.
		return p.len(), false
	}
	return slices.BinarySearchFunc(p.items[p.head:], n, func(s *slot, n uint64) int {
		return cmp.Compare(s.number, n)
	})
}

// drop removes the first entry and returns its slot. It shrinks the memory if the remaining
// entries need far less.
func (p *parked) drop() *slot {
	s := p.pop()
	room := cap(p.items)
	if room <= keptParked {
		return s
	}
	switch {
	case p.len() == 0:
		p.items = nil
		p.head = 0
	case p.len() < room/8:
		p.items = append(make([]*slot, 0, 2*p.len()), p.items[p.head:]...)
		p.head = 0
	}
	return s
}

// unorderedAround returns the indexes of the first and last entries of the unordered message
// that the i-th entry belongs to. ok is false if some of them are missing or have to wait for
// their turn.
func (p *parked) unorderedAround(i int) (first, last int, ok bool) {
	if !p.at(i).mayOvertake() {
		return 0, 0, false
	}
	for first = i; p.at(first).flags&flagBegin == 0; first-- {
		if first == 0 || !p.at(first-1).mayOvertake() || p.at(first-1).number+1 != p.at(first).number {
			return 0, 0, false
		}
	}
	for last = i; p.at(last).flags&flagEnd == 0; last++ {
		if last+1 == p.len() || !p.at(last+1).mayOvertake() || p.at(last+1).number != p.at(last).number+1 {
			return 0, 0, false
		}
	}
	return first, last, true
}

// park returns the slot of entry n and its index. It adds an empty one if there's none yet.
func (p *parked) park(n uint64, memory *payloadMemory) (s *slot, i int) {
	i, ok := p.find(n)
	if ok {
		return p.at(i), i
	}
	s = memory.slot(n)
	p.insert(i, s)
	return s, i
}
