package relevancy

// Slots keeps items in places without gaps, over which a round goes on while items come and go.
type Slots[T any] struct {
	Items []*T // by slot
}

// Add returns the slot of a new item, the last.
func (s *Slots[T]) Add(item *T) (slot int) {
	s.Items = append(s.Items, item)
	return len(s.Items) - 1
}

// Remove takes out the item of a slot. next is the place that a round will visit next; Remove returns which one that is now. The place is filled by
// one that the round has visited if it has visited this one, else by one that it has not, so it misses none. moved is called for each item that gets
// another place.
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
