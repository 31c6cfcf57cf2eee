package rpc

import (
	"fmt"
	"slices"
)

// Ref names an actor in arguments, states and lists, on whichever side. UE: FNetworkGUID. Numbers are never used again while the
// server's world lives; 0 names none. It is resolved where it is used: [World.Actor] and [Conn.Actor] return nil when the actor is
// dead, or not open here.
type Ref uint64

func (r Ref) String() string {
	if r == 0 {
		return "no actor"
	}
	return fmt.Sprintf("actor %d", uint64(r))
}

// Ref returns the number by which all sides name the actor.
func (a *Actor) Ref() Ref {
	if a == nil {
		return 0
	}
	return a.ref
}

// String returns the class's name and the number of the actor, which all sides share.
func (a *Actor) String() string {
	if !a.made() {
		return "no actor"
	}
	return fmt.Sprintf("%s %d", a.class.name, uint64(a.ref))
}

// Actor returns the actor that ref names, nil when it is dead or not open here. On a server use [Conn.Actor] for a number that
// came from a client and lies in Raw bytes or in a type that reads itself: a client may name actors that it was never shown.
func (w *World) Actor(ref Ref) *Actor {
	if w.IsServer() {
		return w.actorsByRef[ref]
	}
	for _, c := range w.conns {
		if a := c.actorsByRef[ref]; a != nil {
			return a
		}
	}
	return nil
}

// opened reports, on a server, whether the actor is open for the client.
func (c *Conn) opened(a *Actor) bool {
	return c.has[a] != nil
}

// unname forgets the number of an actor that has ended.
func (w *World) unname(a *Actor) {
	if w.IsServer() {
		delete(w.actorsByRef, a.ref)
	} else if a.owner != nil && a.owner.actorsByRef[a.ref] == a {
		delete(a.owner.actorsByRef, a.ref)
	}
}

// Actor returns the actor that ref names when it is open for c, or dormant there, else nil. It belongs to the world's goroutine.
func (c *Conn) Actor(ref Ref) *Actor {
	if !c.server {
		return c.actorsByRef[ref]
	}
	if a := c.world.actorsByRef[ref]; a != nil && (c.opened(a) || c.sleeps(a)) {
		return a
	}
	return nil
}

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
