package refs

import "slices"

// Index lists for each key the R that name it, in the order in which they began to. The time of Refile depends on the number of keys that
// its r names, not on how many name the same key: a game may have thousands of states that name one actor.
type Index[K, R comparable] map[K]*list[R]

// list holds the R that name one key. Removing one leaves a gap, and a list that is half gaps is compacted.
type list[R comparable] struct {
	entries []R // a zero R is a gap
	places  map[R]int
}

// Of returns the R that name a key now. The caller may keep the slice.
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

// Refile files r under the keys now instead of before. It returns now, in the memory of before. If both are equal, as most of the time,
// it does nothing.
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

// close removes the gaps.
func (l *list[R]) close() {
	l.entries = slices.DeleteFunc(l.entries, gap)
	for i, r := range l.entries {
		l.places[r] = i
	}
}
