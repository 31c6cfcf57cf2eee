package recovery

// Ring remembers records with consecutive numbers, from Oldest to Next-1. Its owner forgets the oldest by raising Oldest. A ring
// grows as long as its owner pushes; Push returns places as they were left, so that the owner can use again what they point to. The
// zero value is empty.
type Ring[T any] struct {
	Oldest, Next uint64
	places       []T // a power of two, or none
}

// Len returns how many records are remembered.
func (r *Ring[T]) Len() int { return int(r.Next - r.Oldest) }

// Cap returns how many records can be remembered before Push grows the ring.
func (r *Ring[T]) Cap() int { return len(r.places) }

// Has reports whether a number is remembered.
func (r *Ring[T]) Has(number uint64) bool { return number >= r.Oldest && number < r.Next }

// At returns the place of a number that is remembered. It is valid until the next Push.
func (r *Ring[T]) At(number uint64) *T { return &r.places[number&uint64(len(r.places)-1)] }

// Push remembers the number Next and returns its place. A full ring doubles; it begins with least places, a power of two.
func (r *Ring[T]) Push(least int) *T {
	if r.Len() == len(r.places) {
		r.grow(max(least, 2*len(r.places)))
	}
	r.Next++
	return r.At(r.Next - 1)
}

// Take takes the oldest record out, of a ring that has one, and leaves its place empty.
func (r *Ring[T]) Take() (oldest T) {
	var none T
	place := r.At(r.Oldest)
	oldest, *place = *place, none
	r.Oldest++
	return oldest
}

func (r *Ring[T]) grow(size int) {
	old := *r
	r.places = make([]T, size)
	for n := r.Oldest; n < r.Next; n++ {
		*r.At(n) = *old.At(n)
	}
}

// Trim forgets all records and gives up the memory. Numbers continue.
func (r *Ring[T]) Trim() { r.places, r.Oldest = nil, r.Next }

// Shrink gives up free places: all when the ring is empty, otherwise half of them again and again, while three quarters are
// free and at least least, a power of two, are left.
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
