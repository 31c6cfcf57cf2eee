package refs

import "slices"

// An Index lists for each key the values of type R that name the key, in the order in which they
// began to. Since a game may have thousands of states that name one actor, the cost of Refile
// depends only on the number of keys that r names, and not on how many R name the same key.
type Index[K, R comparable] map[K]*list[R]

// A list holds the values that name one key.
type list[R comparable] struct {
	places map[R]uint64 // increase in the order of adding
	last   uint64       // newest place
	order  []place[R]   // ascending; places of R that were removed or added again are stale
}

// A place is the current or a former place of an R.
type place[R comparable] struct {
	r  R
	at uint64
}

// minStale is the number of stale places that a list always tolerates, so that a short list isn't
// copied for every few removals. Any small number will do.
const minStale = 8

// fresh returns the places that are not stale.
func (l *list[R]) fresh(yield func(place[R]) bool) {
	for _, p := range l.order {
		if l.places[p.r] == p.at && !yield(p) {
			return
		}
	}
}

// Of returns the values that name key. The caller may keep the slice.
func (x Index[K, R]) Of(key K) []R {
	l := x[key]
	if l == nil {
		return nil
	}
	all := make([]R, 0, len(l.places))
	for p := range l.fresh {
		all = append(all, p.r)
	}
	return all
}

// Refile moves r from the keys in before to those in now. It returns now, using the memory of
// before. If both are equal, as they usually are, it does nothing.
func (x Index[K, R]) Refile(r R, before, now []K) []K {
	if slices.Equal(before, now) {
		return before
	}
	for _, key := range before {
		x.Remove(key, r)
	}
	for _, key := range now {
		x.Add(key, r)
	}
	return append(before[:0], now...)
}

// Add files r under a key.
func (x Index[K, R]) Add(key K, r R) {
	l := x[key]
	if l == nil {
		l = &list[R]{places: make(map[R]uint64)}
		x[key] = l
	}
	if _, ok := l.places[r]; !ok {
		l.last++
		l.places[r] = l.last
		l.order = append(l.order, place[R]{r, l.last})
	}
}

// Remove removes r from a key.
func (x Index[K, R]) Remove(key K, r R) {
	l := x[key]
	if l == nil {
		return
	}
	delete(l.places, r)
	if len(l.places) == 0 {
		delete(x, key)
	} else if len(l.order) > 2*len(l.places)+minStale {
		l.order = slices.AppendSeq(make([]place[R], 0, len(l.places)), l.fresh)
	}
}
