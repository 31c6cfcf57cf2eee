package relevancy

// Slots keeps items in slots without gaps, over which a round can continue
// while items are added and removed.
type Slots[T any] struct {
	Items []*T // by slot
}

// Add adds an item and returns its slot, which is the last.
func (s *Slots[T]) Add(item *T) (slot int) {
	s.Items = append(s.Items, item)
	return len(s.Items) - 1
}

// Remove removes the item of a slot. next is the slot that a round visits next;
// Remove returns its new number. The slot is filled by a visited item if the
// removed one was visited, and by one that was not if it was not, so the round
// skips none. moved is called for each item that moves to another slot.
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
