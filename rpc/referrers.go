package rpc

import "slices"

// referrers are, on a client, the replicas that name an actor, by its number, in the order in which they began to.
type referrers map[Ref]*referrerList

// referrerList has a gap where a replica left, so that nobody searches for it among many.
type referrerList struct {
	replicas []replica // nil: a gap
	places   map[replica]int
}

// of returns those that name an actor now.
func (l referrers) of(ref Ref) []replica {
	list := l[ref]
	if list == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(list.replicas), func(r replica) bool { return r == nil })
}

// refile enters a replica under what it names now instead of what it named before, and returns the former. Most updates change no
// reference.
func (l referrers) refile(r replica, before, now []Ref) []Ref {
	if slices.Equal(before, now) {
		return before
	}
	for _, ref := range before {
		l.remove(ref, r)
	}
	for _, ref := range now {
		l.add(ref, r)
	}
	return append(before[:0], now...)
}

func (l referrers) add(ref Ref, r replica) {
	list := l[ref]
	if list == nil {
		list = &referrerList{places: make(map[replica]int)}
		l[ref] = list
	}
	if _, ok := list.places[r]; !ok {
		list.places[r] = len(list.replicas)
		list.replicas = append(list.replicas, r)
	}
}

func (l referrers) remove(ref Ref, r replica) {
	list := l[ref]
	if list == nil {
		return
	}
	place, ok := list.places[r]
	if !ok {
		return
	}
	list.replicas[place] = nil
	if delete(list.places, r); len(list.places) == 0 {
		delete(l, ref)
	} else if len(list.replicas) > 2*len(list.places) {
		list.close()
	}
}

// close leaves no gaps.
func (l *referrerList) close() {
	l.replicas = slices.DeleteFunc(l.replicas, func(r replica) bool { return r == nil })
	for i, r := range l.replicas {
		l.places[r] = i
	}
}
