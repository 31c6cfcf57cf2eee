// Package roster keeps items in the order in which they came, in a list that callers may go through while items come and go. It is pure.
package roster

// Seat says where an item stands in a [List]. An item has one Seat for each list that it may be in. The zero Seat is that of an item which
// is not listed.
type Seat struct{ place int } // from 1 on

// List lists items in the order in which they came. Removing an item leaves a gap and searches for nothing. When half of a list is gaps,
// Remove copies it, so that a loop over the old entries still finds all that stay. The zero List is empty.
type List[T any] struct {
	entries []entry[T]
	gaps    int
	head    int // gaps only before it
}

type entry[T any] struct {
	item *T // nil: a gap
	seat *Seat
}

// Add appends an item that is not listed; seat is the one that it has for this list.
func (l *List[T]) Add(item *T, seat *Seat) {
	l.entries = append(l.entries, entry[T]{item, seat})
	seat.place = len(l.entries)
}

// Remove takes an item from the list. It does nothing for one that is not listed.
func (l *List[T]) Remove(seat *Seat) {
	place := seat.place
	if place == 0 {
		return
	}
	seat.place = 0
	l.entries[place-1] = entry[T]{}
	if l.gaps++; 2*l.gaps > len(l.entries) {
		l.close()
	}
}

// close makes a new list without gaps.
func (l *List[T]) close() {
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
	l.entries, l.gaps, l.head = kept, 0, 0
}

// First returns the item that came before all others, nil when there is none.
func (l *List[T]) First() *T {
	for ; l.head < len(l.entries); l.head++ {
		if item := l.entries[l.head].item; item != nil {
			return item
		}
	}
	return nil
}

// All goes through the items that are listed when it begins. An item that is removed meanwhile may still be among them: the caller has to
// ask the item.
func (l *List[T]) All(yield func(*T) bool) {
	for _, e := range l.entries {
		if e.item != nil && !yield(e.item) {
			return
		}
	}
}
