package rpc

import (
	"slices"
	"sync/atomic"
)

// actorTable has the actors that live in a world. The world's goroutine owns it, but for alive.
type actorTable struct {
	all    actors
	always actors            // AlwaysRelevant, and not torn off
	placed map[string]*Actor // by name; the first of a name has it
	alive  atomic.Int64      // how many are in all

	// Of a server.
	byRef map[Ref]*Actor
	last  Ref      // that was given
	razed []*Actor // what stands for placed actors that were destroyed or torn off, for those who join later
}

// number gives an actor its number, by which clients know it.
func (t *actorTable) number(a *Actor) {
	t.last++
	a.ref = t.last
	t.byRef[a.ref] = a
}

// add enters an actor that begins to live.
func (t *actorTable) add(a *Actor) {
	t.alive.Add(1)
	t.all.Add(a, &a.seats.world)
	if a.name != "" && t.placed[a.name] == nil {
		t.placed[a.name] = a
	}
}

// remove forgets an actor that has ended.
func (t *actorTable) remove(a *Actor) {
	t.alive.Add(-1)
	t.all.Remove(&a.seats.world)
	t.always.Remove(&a.seats.always)
	if t.placed[a.name] == a {
		delete(t.placed, a.name)
	}
	if t.byRef[a.ref] == a {
		delete(t.byRef, a.ref)
	}
}

// wasRazed reports whether a placed actor of that name has ended for good.
func (t *actorTable) wasRazed(name string) bool {
	return slices.ContainsFunc(t.razed, func(a *Actor) bool { return a.name == name })
}
