package recovery

// A Ring is a growing ring buffer of records with consecutive numbers, from Oldest to Next-1.
// The owner removes the oldest record by raising Oldest. Records aren't cleared before they are
// reused, so the owner can reuse the memory that they point to. The zero Ring is empty.
type Ring[T any] struct {
	Oldest, Next uint64
	places       []T // as many as a power of two, or none
}

// Len returns how many records there are.
func (r *Ring[T]) Len() int { return int(r.Next - r.Oldest) }

// Cap returns how many records there's room for before Push has to grow the ring.
func (r *Ring[T]) Cap() int { return len(r.places) }

// Has reports whether the ring has a record with the number.
func (r *Ring[T]) Has(number uint64) bool { return number >= r.Oldest && number < r.Next }

// At returns the record with a number, which the ring must have. The pointer is valid until the
// next Push.
func (r *Ring[T]) At(number uint64) *T { return &r.places[number&uint64(len(r.places)-1)] }

// Push adds a record and returns it. If the ring is full, it doubles its capacity, which begins
// with initial, a power of two.
func (r *Ring[T]) Push(initial int) *T {
	if r.Len() == len(r.places) {
		r.grow(max(initial, 2*len(r.places)))
	}
	r.Next++
	return r.At(r.Next - 1)
}

// Take removes the oldest record and returns it. The ring must not be empty. Unlike raising
// Oldest, this clears the record.
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

// Trim removes all records and frees their memory. The numbers go on from Next.
func (r *Ring[T]) Trim() {
	r.places = nil
	r.Oldest = r.Next
}

// Shrink frees what isn't needed. It halves the capacity as long as three quarters are unused,
// but not below floor, a power of two. An empty ring frees everything.
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
