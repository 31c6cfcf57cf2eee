package pace

const (
	// kept is how many values a latest keeps: points of the curve, and neighbours of lost packets.
	kept = 256
	// leastPlaces is how many places it begins with.
	leastPlaces = 16
)

// latest keeps the last kept values of a sequence, numbered from 0. Its memory grows with their number: each connection has a controller,
// and most carry little.
type latest[T any] struct {
	places []T // its length is a power of two, or 0
	next   int // number of the next value
}

// add adds the next value.
func (l *latest[T]) add(v T) {
	if n := len(l.places); l.next == n && n < kept {
		places := make([]T, max(leastPlaces, 2*n))
		copy(places, l.places)
		l.places = places
	}
	*l.at(l.next) = v
	l.next++
}

// at returns the value with number i, which must still be kept.
func (l *latest[T]) at(i int) *T { return &l.places[i&(len(l.places)-1)] }
