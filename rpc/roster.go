package rpc

import (
	"cmp"
	"iter"
	"slices"
)

// seat says which of an actor's places a roster keeps.
type seat uint8

const (
	seatWorld   seat = iota // among all actors of the world
	seatBinding             // among those of its class
	seatOwner               // among those that its owner has
	seatAlways              // among those that are AlwaysRelevant

	seats
)

// roster lists actors in the order in which they came. One that leaves leaves a gap, so that nobody searches for it, and a list that is
// half gaps is copied: who goes through the old one meanwhile still finds all that live.
type roster struct {
	seat   seat
	actors []*Actor // nil: a gap
	gaps   int
	head   int // gaps only before it
}

func (r *roster) add(a *Actor) {
	r.actors = append(r.actors, a)
	a.places[r.seat] = len(r.actors)
}

// remove does nothing for an actor that is not listed.
func (r *roster) remove(a *Actor) {
	place := a.places[r.seat]
	if place == 0 {
		return
	}
	a.places[r.seat] = 0
	r.actors[place-1] = nil
	if r.gaps++; 2*r.gaps > len(r.actors) {
		r.close()
	}
}

// close makes a new list without gaps.
func (r *roster) close() {
	var kept []*Actor
	if n := len(r.actors) - r.gaps; n > 0 {
		kept = make([]*Actor, 0, 2*n)
	}
	for _, a := range r.actors {
		if a != nil {
			kept = append(kept, a)
			a.places[r.seat] = len(kept)
		}
	}
	r.actors, r.gaps, r.head = kept, 0, 0
}

// first returns the actor that came before all others, nil when there is none.
func (r *roster) first() *Actor {
	for ; r.head < len(r.actors); r.head++ {
		if a := r.actors[r.head]; a != nil {
			return a
		}
	}
	return nil
}

// all goes through the actors that are listed when it begins and still live when it comes to them.
func (r *roster) all(yield func(*Actor) bool) {
	for _, a := range r.actors {
		if a != nil && !a.dead && !yield(a) {
			return
		}
	}
}

// Actors returns the actors that live here, in the order of their [Ref]: on a server all that were spawned and not destroyed, on a
// client its copies. Actors may be spawned, opened and destroyed meanwhile: those that came since the beginning are left out, those
// that have ended are passed over. It belongs to the world's goroutine. UE: TActorIterator.
func (w *World) Actors() iter.Seq[*Actor] {
	if w.IsServer() {
		return w.roster.all // numbers are given in the order of Spawn
	}
	return func(yield func(*Actor) bool) {
		sorted := roster{actors: slices.Collect(w.roster.all)}
		slices.SortStableFunc(sorted.actors, func(a, b *Actor) int { return cmp.Compare(a.ref, b.ref) })
		sorted.all(yield)
	}
}

// Of returns the object of an actor; false when a is nil, has ended, or is not of the binding's class and world. UE: Cast.
func (b *Binding[T]) Of(a *Actor) (object T, ok bool) {
	if !a.made() || a.dead {
		return object, false
	}
	if p := a.part(b.untyped.class); p.binding == b.untyped && p.object != nil {
		return p.object.(T), true
	}
	return object, false
}

// At returns the object of the actor that ref names; false when [World.Actor] returns nil, or Of does not know it.
func (b *Binding[T]) At(ref Ref) (object T, ok bool) { return b.Of(b.world.Actor(ref)) }

// listed returns a roster of all actors that may have an object of b's.
func (b *Binding[T]) listed() *roster {
	if own := b.world.bindings[b.untyped.class.root()]; own != nil {
		return &own.actors
	}
	return &b.world.roster
}

// All returns the actors of the class that live here and their objects, in the order in which they were spawned, or opened here. As
// with [World.Actors] they may come and go meanwhile.
func (b *Binding[T]) All() iter.Seq2[*Actor, T] {
	return func(yield func(*Actor, T) bool) {
		b.listed().all(func(a *Actor) bool {
			object, ok := b.Of(a)
			return !ok || yield(a, object)
		})
	}
}
