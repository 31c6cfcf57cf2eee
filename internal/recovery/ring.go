package recovery

// A Ring holds records with consecutive numbers, from Oldest to Next-1. Its owner removes
// the oldest record by raising Oldest. Push grows the ring if it is full. It returns slots
// as they were left, so the owner can reuse the memory that they point to. The zero value
// is empty.
type Ring[T any] struct {
	Oldest, Next uint64
	places       []T // the length is a power of two or 0
}

// Len returns the number of records.
func (r *Ring[T]) Len() int { return int(r.Next - r.Oldest) }

// Cap returns the number of records that the ring can hold before Push grows it.
func (r *Ring[T]) Cap() int { return len(r.places) }

// Has reports whether the ring has a record with the number.
func (r *Ring[T]) Has(number uint64) bool { return number >= r.Oldest && number < r.Next }

// At returns the record with a number that the ring has. The pointer is valid until the
// next Push.
func (r *Ring[T]) At(number uint64) *T { return &r.places[number&uint64(len(r.places)-1)] }

// Push adds the number Next and returns its record. If the ring is full, its capacity
// doubles. The first capacity is initial, a power of two.
func (r *Ring[T]) Push(initial int) *T {
	if r.Len() == len(r.places) {
		r.grow(max(initial, 2*len(r.places)))
	}
	r.Next++
	return r.At(r.Next - 1)
}

// Take removes and returns the oldest record of a ring that is not empty. It clears the
// record's slot.
func (r *Ring[T]) Take() (oldest T) {
	var none T
	place := r.At(r.Oldest)
	oldest = *place
	*place = none
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
func (r *Ring[T]) Trim() {
	r.places = nil
	r.Oldest = r.Next
}

// Shrink frees unused slots. If the ring is empty, it frees all of them. Otherwise it
// halves the capacity while three quarters are unused and at least floor slots remain.
// floor is a power of two.
func (r *Ring[T]) Shrink(floor int) {
	if r.Len() == 0 {
		r.Trim()
		return
	}
	size := len(r.places)
	for r.Len() <= size/4 && size/2 >= floor {
		size /= 2
	}
	if size < len(r.places) {
		r.grow(size)
	}
}
