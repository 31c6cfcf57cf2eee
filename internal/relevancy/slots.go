package relevancy

// Slots keeps items in places that never move, so that rounds over the places miss none. H is what the viewer that the owner examines now
// has of an item.
type Slots[T, H any] struct {
	Items []*T // by slot; nil = free
	Here  []*H // by slot; the owner sets them for the viewer that it examines, and to nil afterwards
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
