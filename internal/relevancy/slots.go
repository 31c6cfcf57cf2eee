package relevancy

// Slots keeps items in places that move in Pack only, so that rounds over the places miss none. H is what the viewer that the owner examines now
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

// fewSlots is how many places are not worth a Pack.
const fewSlots = 64

// Pack closes the gaps when most places are free: otherwise rounds would for ever take as long as for the most items that there ever were at
// once. The items stay in their order, and moved is called for each that gets another place. next is the place that a round will visit next;
// Pack returns which one that is now. Nothing may be in Here.
func (s *Slots[T, H]) Pack(next int, moved func(item *T, from, to int)) int {
	if len(s.Items) <= fewSlots || 2*len(s.free) <= len(s.Items) {
		return next
	}
	kept, now := make([]*T, 0, len(s.Items)-len(s.free)), 0
	for from, item := range s.Items {
		if from == next {
			now = len(kept)
		}
		if item == nil {
			continue
		}
		if to := len(kept); to != from {
			moved(item, from, to)
		}
		kept = append(kept, item)
	}
	if next >= len(s.Items) {
		now = len(kept)
	}
	s.Items, s.Here, s.free = kept, make([]*H, len(kept)), nil
	return now
}
