package recovery

// A Ring holds records with consecutive numbers, from Oldest to Next-1. Its owner removes
// the oldest by raising Oldest. A ring grows as its owner pushes. Push returns slots as
// they were left, so that the owner can reuse what they point to. The zero value is empty.
type Ring[T any] struct {
	Oldest, Next uint64
	places       []T // the length is a power of two, or 0
}

// Len returns the number of records.
func (r *Ring[T]) Len() int { return int(r.Next - r.Oldest) }

// Cap returns how many records the ring can hold before Push grows it.
func (r *Ring[T]) Cap() int { return len(r.places) }

// Has reports whether the ring has a record of the number.
func (r *Ring[T]) Has(number uint64) bool { return number >= r.Oldest && number < r.Next }

// At returns the record of a number that the ring has. It is valid until the next Push.
func (r *Ring[T]) At(number uint64) *T { return &r.places[number&uint64(len(r.places)-1)] }

// Push adds the number Next and returns its record. If the ring is full, its
// capacity doubles; the first capacity is least, a power of two.
func (r *Ring[T]) Push(least int) *T {
	if r.Len() == len(r.places) {
		r.grow(max(least, 2*len(r.places)))
	}
	r.Next++
	return r.At(r.Next - 1)
}

// Take removes and returns the oldest record of a ring that is not empty. It
// clears the record's slot.
func (r *Ring[T]) Take() (oldest T) {
	var none T
	place := r.At(r.Oldest)
	oldest, *place = *place, none
	r.Oldest++
	return oldest
}

// grow moves the records into size slots.
func (r *Ring[T]) grow(size int) {
	old := *r
	r.places = make([]T, size)
	for n := r.Oldest; n < r.Next; n++ {
		*r.At(n) = *old.At(n)
	}
}

// Trim removes all records and frees their memory. Numbers continue.
func (r *Ring[T]) Trim() { r.places, r.Oldest = nil, r.Next }

// Shrink frees unused slots: all if the ring is empty, otherwise half of them again and
// again, while three quarters are unused and at least least, a power of two, remain.
func (r *Ring[T]) Shrink(least int) {
	if r.Len() == 0 {
		r.Trim()
		return
	}
	size := len(r.places)
	for r.Len() <= size/4 && size/2 >= least {
		size /= 2
	}
	if size < len(r.places) {
		r.grow(size)
	}
}
