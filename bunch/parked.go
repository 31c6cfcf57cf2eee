package bunch

import (
	"cmp"
	"slices"
)

// parked holds the entries of a channel that arrived early or only in part, in the order of
// their numbers. Its memory grows with the number of entries rather than with how far ahead
// the peer's numbers are.
type parked struct{ queue[*slot] }

// keptParked is the number of entries for which an empty list keeps room. channelCost
// covers it.
const keptParked = 8

// find returns the index of entry n, or where it would be inserted.
func (p *parked) find(n uint64) (i int, ok bool) {
	if p.len() == 0 || p.at(p.len()-1).number < n {
		return p.len(), false // the usual case, because most entries arrive in order
	}
	return slices.BinarySearchFunc(p.items[p.head:], n, func(s *slot, n uint64) int {
		return cmp.Compare(s.number, n)
	})
}

// drop removes the first entry, and frees memory that the remaining entries do not need.
func (p *parked) drop() *slot {
	s := p.pop()
	room := cap(p.items)
	switch {
	case room <= keptParked:
	case p.len() == 0:
		p.items = nil
		p.head = 0
	case p.len() < room/8:
		p.items = append(make([]*slot, 0, 2*p.len()), p.items[p.head:]...)
		p.head = 0
	}
	return s
}

// unorderedAround returns the indexes of the first and last entries of the unordered
// message to which the i-th entry belongs. ok is false if some of its entries are missing.
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

// park finds the slot of entry n, or adds an empty one.
func (p *parked) park(n uint64, memory *payloadMemory) (s *slot, i int) {
	i, ok := p.find(n)
	if ok {
		return p.at(i), i
	}
	s = memory.slot(n)
	p.insert(i, s)
	return s, i
}
