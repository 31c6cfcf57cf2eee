// Package roster keeps items in the order in which they were added, in a list that callers
// may iterate over while items are added and removed. It uses no clock, goroutine or lock.
package roster

// A Seat is the place of an item in a [List]. An item has one Seat for each list that may
// contain it. The zero Seat means that the item is not listed.
type Seat struct{ place int } // index in entries, plus 1

// A List lists items in the order in which they were added. Removing an item takes constant time
// and leaves a gap. When more than half of a list is gaps, Remove copies the items to a new list,
// so a loop over the old entries still finds all remaining items. The zero List is empty.
type List[T any] struct {
	entries []entry[T]
	gaps    int
	head    int // all entries before this index are gaps
}

// An entry is a listed item, or the gap that a removed one has left.
type entry[T any] struct {
	item *T // nil if the entry is a gap
	seat *Seat
}

// Add appends an item that is not listed. seat is the item's Seat for this list.
func (l *List[T]) Add(item *T, seat *Seat) {
	l.entries = append(l.entries, entry[T]{item, seat})
	seat.place = len(l.entries)
}

// Remove removes an item. It does nothing if the item is not listed.
func (l *List[T]) Remove(seat *Seat) {
	place := seat.place
	if place == 0 {
		return
	}
	seat.place = 0
	l.entries[place-1] = entry[T]{}
	l.gaps++
	if 2*l.gaps > len(l.entries) {
		l.compact()
	}
}

// compact copies the items to a new list without gaps.
func (l *List[T]) compact() {
	var kept []entry[T]
	if n := len(l.entries) - l.gaps; n > 0 {
		kept = make([]entry[T], 0, 2*n)
	}
	for _, e := range l.entries {
		if e.item != nil {
			kept = append(kept, e)
			e.seat.place = len(kept)
		}
	}
	l.entries = kept
	l.gaps = 0
	l.head = 0
}

// First returns the oldest item, or nil if the list is empty. It remembers how many gaps it
// skipped, so that the next call needn't skip them again.
func (l *List[T]) First() *T {
	for ; l.head < len(l.entries); l.head++ {
		if item := l.entries[l.head].item; item != nil {
			return item
		}
	}
	return nil
}

// All yields the items that are listed when it begins. It may still yield an item that is
// removed during the loop, so the caller must check the item.
func (l *List[T]) All(yield func(*T) bool) {
	for _, e := range l.entries {
		if e.item != nil && !yield(e.item) {
			return
		}
	}
}
