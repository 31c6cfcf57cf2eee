package versions

import (
	"maps"
	"slices"
)

// sorted has the names of a user's saves in order, so that a request for a few of them does not sort all. nil = nobody has asked yet.
type sorted []string

// of returns the names, which are the keys of all.
func (s *sorted) of(all map[string][]Version) []string {
	if *s == nil {
		*s = slices.Sorted(maps.Keys(all))
	}
	return *s
}

// from returns names, which are sorted, from first on.
func from(names []string, first string) []string {
	at, _ := slices.BinarySearch(names, first)
	return names[at:]
}

// add notes a name that is new.
func (s *sorted) add(name string) {
	if at, found := slices.BinarySearch(*s, name); *s != nil && !found {
		*s = slices.Insert(*s, at, name)
	}
}

// drop notes that a name is gone.
func (s *sorted) drop(name string) {
	if at, found := slices.BinarySearch(*s, name); found {
		*s = slices.Delete(*s, at, at+1)
	}
}
