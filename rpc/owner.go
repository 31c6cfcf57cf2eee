package rpc

import "fmt"

// OnOwner makes fn run when an actor of the class has another owner: on the server when [Actor.Conn] has changed, on a client when
// [Actor.Owned] has. It does not run for who owns it from the beginning, nor when it ends. It panics when there is a function already.
// UE: PossessedBy and UnPossessed on the server, OnRep_Owner on clients.
func OnOwner[T any](b *Binding[T], fn func(object T)) {
	mustHook(b.untyped, "OnOwner", fn == nil, b.untyped.onOwner != nil)
	b.untyped.onOwner = func(object any) { fn(object.(T)) }
}

// setOwned notes, on a client, whether it owns the actor.
func (a *Actor) setOwned(owned bool) {
	if a.owned != owned {
		a.owned = owned
		a.ownerChanged()
	}
}

// ownerChanged tells the object.
func (a *Actor) ownerChanged() {
	if !a.dead && a.binding != nil && a.object != nil && a.binding.onOwner != nil {
		a.world.during(activity{what: "OnOwner of ", class: a.class}, func() { a.binding.onOwner(a.object) })
	}
}

// SetOwner gives the actor to another connection or to the server itself (nil), opens it for the new owner, and tells
// both clients.
func (w *World) SetOwner(a *Actor, owner *Conn) error {
	if err := a.mayChange("SetOwner"); err != nil {
		return err
	}
	switch {
	case owner != nil && !owner.usable():
		return fmt.Errorf("rpc: SetOwner of a %q to %v: %w", a.class.name, owner, ErrClosed)
	case a.owner == owner:
		return nil
	}
	previous := a.owner
	if previous != nil {
		previous.disown(a)
	}
	a.owner = owner
	defer a.ownerChanged()
	for _, o := range a.opens {
		o.look()
	}
	if previous != nil {
		a.tellOwner(previous)
	}
	if owner == nil {
		return nil
	}
	owner.owned = append(owner.owned, a)
	if a.find(owner) < 0 {
		return a.open(owner)
	}
	return a.tellOwner(owner)
}
