package recovery

// A Ring is a growing ring buffer of records with consecutive numbers, from Oldest to Next-1.
// The owner removes the oldest record by incrementing Oldest. Records aren't cleared before they
// are reused, so the owner can reuse the memory to which they point. The zero Ring is empty.
type Ring[T any] struct {
	Oldest, Next uint64
	slots        []T // the number of slots is 0 or a power of two
}

// Len returns the number of records.
func (r *Ring[T]) Len() int { return int(r.Next - r.Oldest) }

// Cap returns the number of records for which there is room before Push grows the ring.
func (r *Ring[T]) Cap() int { return len(r.slots) }

// Has reports whether the ring has a record with the number.
func (r *Ring[T]) Has(number uint64) bool { return number >= r.Oldest && number < r.Next }

// At returns the record with a number, which the ring must have. The pointer is valid until the
// next Push.
func (r *Ring[T]) At(number uint64) *T { return &r.slots[number&uint64(len(r.slots)-1)] }

// Push adds a record and returns it. If the ring is full, its capacity is doubled, starting with
// initial, which must be a power of two.
func (r *Ring[T]) Push(initial int) *T {
	if r.Len() == len(r.slots) {
		r.grow(max(initial, 2*len(r.slots)))
	}
	r.Next++
	return r.At(r.Next - 1)
}

// Take removes the oldest record and returns it. The ring must not be empty. Unlike incrementing
// Oldest, this clears the record.
func (r *Ring[T]) Take() (oldest T) {
	var zero T
	slot := r.At(r.Oldest)
	oldest = *slot
	*slot = zero
	r.Oldest++
	return oldest
}

// grow moves the records into size slots.
func (r *Ring[T]) grow(size int) {
	old := *r
	r.slots = make([]T, size)
	for n := r.Oldest; n < r.Next; n++ {
		*r.At(n) = *old.At(n)
	}
}

// Trim removes all records and frees their memory. Numbers continue from Next.
func (r *Ring[T]) Trim() {
	r.slots = nil
	r.Oldest = r.Next
}

// Shrink frees memory that isn't needed. It halves the capacity as long as three quarters of it are
// unused, but not below floor, which must be a power of two. An empty ring frees all memory.
func (r *Ring[T]) Shrink(floor int) {
	if r.Len() == 0 {
		r.Trim()
		return
	}
	size := len(r.slots)
	for r.Len() <= size/4 && size/2 >= floor {
		size /= 2
	}
	if size < len(r.slots) {
		r.grow(size)
	}
}
