package relevancy

import "time"

// Slots keep items in places that never move, so that rounds over them miss none. H is what the viewer whom their owner looks at just now
// has of an item.
type Slots[T, H any] struct {
	Items []*T // by slot; nil = free
	Here  []*H // by slot; the owner sets them before it looks at a viewer, and to nil afterwards
	free  []int
}

// Add returns the slot of a new item.
func (s *Slots[T, H]) Add(item *T) (slot int) {
	if n := len(s.free); n > 0 {
		slot, s.free = s.free[n-1], s.free[:n-1]
		s.Items[slot] = item
		return slot
	}
	s.Items = append(s.Items, item)
	s.Here = append(s.Here, nil)
	return len(s.Items) - 1
}

// Remove frees a slot.
func (s *Slots[T, H]) Remove(slot int) {
	s.Items[slot] = nil
	s.free = append(s.free, slot)
}

// Round spreads a round of work over the Flushes of its period.
type Round struct{ owed time.Duration } // time that passed, once for each item; a period of it is one item's turn

// Take returns how many of n are due after some time.
func (r *Round) Take(n int, passed, period time.Duration) int {
	r.owed += min(passed, period) * time.Duration(n)
	due := r.owed / period
	r.owed -= due * period
	return min(int(due), n)
}
