package pace

const (
	// kept is how many of a row are kept: points of the curve, and neighbours of a lost packet.
	kept = 256
	// leastPlaces are made at first.
	leastPlaces = 16
)

// latest keeps the last of a row, kept of them at most, by their numbers from 0. It has room for as many as there were: each connection
// has a controller, and most carry little.
type latest[T any] struct {
	places []T // a power of two, or none
	next   int // number
}

// add takes the next one.
func (l *latest[T]) add(v T) {
	if n := len(l.places); l.next == n && n < kept {
		places := make([]T, max(leastPlaces, 2*n))
		copy(places, l.places)
		l.places = places
	}
	*l.at(l.next) = v
	l.next++
}

// at returns one that is kept.
func (l *latest[T]) at(i int) *T { return &l.places[i&(len(l.places)-1)] }
