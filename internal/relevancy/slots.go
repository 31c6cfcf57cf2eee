package relevancy

// Slots keeps items in slots without gaps. A loop over the slots can continue while items are added
// and removed.
type Slots[T any] struct {
	Items []*T // by slot
}

// Add adds an item and returns its slot, which is the last.
func (s *Slots[T]) Add(item *T) (slot int) {
	s.Items = append(s.Items, item)
	return len(s.Items) - 1
}

// Remove removes the item in slot. next is the slot that the loop visits next, and Remove returns
// its new number.
//
// A visited item's slot is filled with another visited item, and any other slot with an item that
// hasn't been visited, so the loop skips no item. moved is called for each item that moves to
// another slot.
func (s *Slots[T]) Remove(slot, next int, moved func(item *T, to int)) int {
	move := func(from, to int) {
		if from != to {
			s.Items[to] = s.Items[from]
			moved(s.Items[to], to)
		}
	}
	if slot < next {
		next--
		move(next, slot)
		slot = next
	}
	last := len(s.Items) - 1
	move(last, slot)
	s.Items[last] = nil
	s.Items = s.Items[:last]
	return next
}
