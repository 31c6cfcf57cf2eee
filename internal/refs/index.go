package refs

import "slices"

// Index has, for each key, those that name it, in the order in which they began to. Refile takes time in proportion to the keys of one
// that names them, not to all that name a key: a game may have thousands that name one actor.
type Index[K, R comparable] map[K]*list[R]

// list are those that name one key. One that leaves leaves a gap, and a list that is half gaps is closed up.
type list[R comparable] struct {
	entries []R // the zero R: a gap
	places  map[R]int
}

// Of returns those that name a key now. The slice is the caller's.
func (x Index[K, R]) Of(key K) []R {
	l := x[key]
	if l == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.entries), gap)
}

func gap[R comparable](r R) bool {
	var none R
	return r == none
}

// Refile enters r under the keys that it names now, instead of those that it named before, and returns now in the memory of before. Most of
// the time they are the same, and it does nothing.
func (x Index[K, R]) Refile(r R, before, now []K) []K {
	if slices.Equal(before, now) {
		return before
	}
	for _, key := range before {
		x.remove(key, r)
	}
	for _, key := range now {
		x.add(key, r)
	}
	return append(before[:0], now...)
}

func (x Index[K, R]) add(key K, r R) {
	l := x[key]
	if l == nil {
		l = &list[R]{places: make(map[R]int)}
		x[key] = l
	}
	if _, ok := l.places[r]; !ok {
		l.places[r] = len(l.entries)
		l.entries = append(l.entries, r)
	}
}

func (x Index[K, R]) remove(key K, r R) {
	l := x[key]
	if l == nil {
		return
	}
	place, ok := l.places[r]
	if !ok {
		return
	}
	var none R
	l.entries[place] = none
	if delete(l.places, r); len(l.places) == 0 {
		delete(x, key)
	} else if len(l.entries) > 2*len(l.places) {
		l.close()
	}
}

// close leaves no gaps.
func (l *list[R]) close() {
	l.entries = slices.DeleteFunc(l.entries, gap)
	for i, r := range l.entries {
		l.places[r] = i
	}
}
