package recovery

// Ring remembers what left under consecutive numbers, from Oldest to Next-1, until its owner forgets it by raising Oldest. It
// grows as far as its owner lets it; places are used again as they were left, so that what they point to can be, too. The
// zero value is empty.
type Ring[T any] struct {
	Oldest, Next uint64
	places       []T // a power of two, or none
}

// Len is how many are remembered.
func (r *Ring[T]) Len() int { return int(r.Next - r.Oldest) }

// Cap is how many can be remembered before Push grows the ring.
func (r *Ring[T]) Cap() int { return len(r.places) }

// Has reports whether a number is remembered.
func (r *Ring[T]) Has(number uint64) bool { return number >= r.Oldest && number < r.Next }

// At returns the place of a number that is remembered. It is the number's until the next Push.
func (r *Ring[T]) At(number uint64) *T { return &r.places[number&uint64(len(r.places)-1)] }

// Push returns the place of the number Next, which then is remembered. A ring that is full doubles, from least places on,
// which is a power of two.
func (r *Ring[T]) Push(least int) *T {
	if r.Len() == len(r.places) {
		r.grow(max(least, 2*len(r.places)))
	}
	r.Next++
	return r.At(r.Next - 1)
}

func (r *Ring[T]) grow(size int) {
	old := *r
	r.places = make([]T, size)
	for n := r.Oldest; n < r.Next; n++ {
		*r.At(n) = *old.At(n)
	}
}

// Trim forgets all and gives up the memory. Numbers go on.
func (r *Ring[T]) Trim() { r.places, r.Oldest = nil, r.Next }

// Shrink gives up places that are not needed: all when the ring is empty, else half of them for as long as three quarters are
// free and least, a power of two, are left.
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
