package rpc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quivernet/quiver/internal/tasks"
)

// An Owner owns actors. It is a *[Conn], or another *[Actor] of the same server, which may
// have an owner itself. Such a chain ends at a connection, [Actor.Conn], or at the server
// itself. The client of that connection may call Server RPCs, runs Client RPCs, and gets
// the fields that are for the owner. UE: AActor::Owner; the chain of GetNetConnection.
type Owner interface {
	// chainEnds returns both ends of the chain: the actor that is the direct owner, or nil if
	// the owner is no actor, and the connection at the far end, or nil if that is the server.
	chainEnds() (owner *Actor, conn *Conn)
}

func (c *Conn) chainEnds() (*Actor, *Conn) { return nil, c }

func (a *Actor) chainEnds() (*Actor, *Conn) {
	if a == nil {
		return nil, nil
	}
	return a, a.conn
}

// chainEndsOf returns the ends of the chain of o, which is nil for the server itself.
func chainEndsOf(o Owner) (owner *Actor, conn *Conn) {
	if o == nil {
		return nil, nil
	}
	return o.chainEnds()
}

// checkOwner returns an error if an owner with these ends of its chain cannot
// own a. Spawn, which has not made the actor yet, passes nil for a.
func (w *World) checkOwner(a, owner *Actor, conn *Conn) error {
	switch {
	case owner != nil && owner.world != w, conn != nil && conn.world != w:
		return fmt.Errorf("the owner is of another world: %w", ErrWrongRole)
	case owner != nil && (owner.dead || owner.torn):
		return fmt.Errorf("the owner, %v, is destroyed or torn off: %w", owner, ErrClosed)
	case conn != nil && !conn.mayJoin() && !conn.usable(): // in this order, because a connection that joins in between must be found usable
		return fmt.Errorf("the owner is %v: %w", conn, ErrClosed)
	}
	for o := owner; o != nil && a != nil; o = o.owner {
		if o == a {
			return fmt.Errorf("the owner, %v, is the actor itself, or owned by it", owner)
		}
	}
	return nil
}

// OnOwner makes fn run when the owner of an actor of the class has changed: on the server
// if [World.SetOwner] has set another owner, or if [Actor.Conn] has changed because of an
// owner further up the chain; on a client if [Actor.Owned] has changed. It does not run
// for the first owner, nor when the actor ends. When it runs on the server, the opens for
// the new owner have been made, with the states as they were. OnOwner panics if there is a
// function already. UE: PossessedBy and UnPossessed on the server, OnRep_Owner on clients.
func OnOwner[T any](b *Binding[T], fn func(object T)) {
	mustHook("OnOwner", b.untyped.class, fn == nil, b.untyped.onOwner != nil)
	b.untyped.onOwner = func(object any) { fn(object.(T)) }
}

// setOwned sets, on a client, whether this side owns the actor, and calls
// OnOwner's functions if that has changed.
func (a *Actor) setOwned(owned bool) {
	if a.owned != owned {
		a.owned = owned
		a.ownerChanged()
	}
}

// ownerChanged calls OnOwner's functions, for the actor and its components.
func (a *Actor) ownerChanged() {
	for p := range a.parts {
		if !a.dead && p.binding.onOwner != nil {
			a.world.game.During(tasks.Doing{What: "OnOwner of ", Of: p.binding.class}, func() { p.binding.onOwner(p.object) })
		}
	}
}

// SetOwner gives the actor to a connection, to another actor, or to the server itself (nil). It
// is for the server only. UE: SetOwner; there the actors that a leaving player's pawn owned stay.
//
// If this changes the connection at the end of the chain, the actor and all that it owns
// open for the new connection, and the clients of both connections are told. An open that
// need not wait is made in SetOwner, with the states as they are then, including the
// owner's fields, and [OnOwner] runs after it. So clear what the new owner must not see
// before SetOwner. In Unreal, the values at the end of the tick count. Server RPCs of the
// previous client that are in flight are dropped, and counted in its Drops.NotOwner.
//
// If the new client cannot have the actor, or cannot be told, SetOwner returns an error, and the
// client owns the actor all the same. Two errors change nothing: the actor would own itself,
// directly or through others; and [ErrClosed], because the new owner's connection has begun to
// close, which happens before OnDisconnect runs, or because the new owner or the actor has ended.
//
// The previous client's copy closes at once if the client had it only as the owner, that
// is, if nobody has called the actor's [Actor.OpenTo] and the class has neither [At] nor
// [Relevant], or the actor is [OnlyRelevantToOwner], or [RelevantAsOwner] of one without
// a position. Other copies close 5 s after they were last relevant, as always.
//
// A copy whose open the client has not acknowledged closes only when it has; until then it gets no
// updates. It stays if by then the client owns the actor again, or the actor is relevant to it. A
// copy that has closed opens again only when the client has acknowledged the close, a round trip
// later. So if an actor changes hands faster than that, call OpenTo for the clients concerned.
//
// When an owner is destroyed, the actors that it owned belong to the server.
// When a connection ends, all actors of its chains are destroyed after
// OnDisconnect, each before its owner. SetOwner(a, nil) in OnDisconnect keeps a
// and all that a owns; in OnClose of the pawn that owns a it is too late.
func (w *World) SetOwner(a *Actor, to Owner) error {
	if err := a.checkAuthority("SetOwner"); err != nil {
		return err
	}
	if a.world != w {
		return ofAnother(fmt.Sprintf("SetOwner of %v", a))
	}
	owner, conn := chainEndsOf(to)
	if err := w.checkOwner(a, owner, conn); err != nil {
		return errorf("rpc: SetOwner of %v: %w", a, err)
	}
	if a.owner == owner && a.conn == conn {
		return nil
	}
	a.unlist()
	a.listAt(owner, conn)
	heirs, err := a.inherit(conn)
	if len(heirs) == 0 { // the connection is the same
		a.ownerChanged()
	}
	for _, heir := range heirs {
		heir.ownerChanged()
	}
	return err
}

// listAt adds the actor to the list of its owner.
func (a *Actor) listAt(owner *Actor, conn *Conn) {
	a.owner = owner
	switch {
	case owner != nil:
		owner.children.Add(a, &a.seats.owner)
	case conn != nil:
		conn.shown.owned.Add(a, &a.seats.owner)
	}
}

// unlist removes the actor from the list of its owner.
func (a *Actor) unlist() {
	switch {
	case a.owner != nil:
		a.owner.children.Remove(&a.seats.owner)
	case a.conn != nil:
		a.conn.shown.owned.Remove(&a.seats.owner)
	}
	a.owner = nil
}

// inherit makes conn the end of the chain for the actor and all that it owns,
// and tells the clients. It returns these actors, or none if conn was the end
// already, and the first error of telling the clients.
func (a *Actor) inherit(conn *Conn) (heirs []*Actor, first error) {
	previous := a.conn
	if previous == conn {
		return nil, nil
	}
	heirs = a.withOwned(nil)
	for _, heir := range heirs {
		heir.conn = conn
		heir.resume(conn)
		for _, o := range heir.openings {
			o.look()
		}
	}
	for _, heir := range heirs {
		if err := heir.tellOwners(previous, conn); err != nil && first == nil {
			first = err
		}
	}
	return heirs, first
}

// withOwned appends the actor and all that it owns, directly or through others,
// each after its owner.
func (a *Actor) withOwned(list []*Actor) []*Actor {
	list = append(list, a)
	for i := len(list) - 1; i < len(list); i++ {
		list = slices.AppendSeq(list, list[i].children.all)
	}
	return list
}

// tellOwners tells the clients of both connections that the owner has changed. If the
// previous one had the actor only as its owner, it closes there. If the new one does
// not have it, it opens there; a client that has yet to join gets it from openOwned.
func (a *Actor) tellOwners(previous, conn *Conn) error {
	if a.torn {
		return nil
	}
	closes := a.onlyAsOwner(previous)
	if previous != nil && (!closes || a.name != "") { // the copy of a placed actor stays without its channel
		_ = a.tellOwner(previous) // on an error the connection is closing
	}
	if closes {
		a.partFrom(previous)
	}
	switch {
	case conn == nil || conn.mayJoin():
		return nil
	case a.openingOn(conn) == nil:
		return a.open(conn)
	}
	return a.tellOwner(conn)
}

// onlyAsOwner reports whether the actor was open for its previous connection only because that
// owned it. It is so for an actor that is relevant to nobody but its owner (private), unless
// it is AlwaysRelevant, the game has called OpenTo, or the client's view is at the actor.
func (a *Actor) onlyAsOwner(previous *Conn) bool {
	r := &a.relevancy
	private := r.rule == byHand || r.rule == byOwner || r.asOwner && r.rule == byGrid && !r.place.Somewhere()
	return private && previous != nil && !r.always && !r.named && a != previous.shown.view.target
}

// orphan gives the actors that a owns to the server, and returns all actors
// whose connection has changed.
func (a *Actor) orphan() (heirs []*Actor) {
	for child := range a.children.all {
		child.unlist()
		more, _ := child.inherit(nil)
		heirs = append(heirs, more...)
	}
	return heirs
}

// destroyOwned destroys the actors that a connection that has ended still owns,
// each before its owner and in its own task.
func (c *Conn) destroyOwned() {
	a := c.shown.owned.First()
	if a == nil {
		return
	}
	c.world.game.Later(c, tasks.Doing{}, c.destroyOwned)
	for child := a.children.First(); child != nil; child = a.children.First() {
		a = child
	}
	_ = c.world.Destroy(a)
}

// Owner returns, on the server, the actor that owns this one, or nil if a connection or the server
// itself does. Clients do not know it: put a [Ref] into a state to tell them. UE: GetOwner.
func (a *Actor) Owner() *Actor { return a.owner }

// ownerName returns, on the server, the name of the connection that owns the
// actor, for errors and logs.
func (a *Actor) ownerName() string {
	if a.conn == nil {
		return "nobody"
	}
	return a.conn.String()
}

// A Role is what a world may do with its actor. The numbers are Unreal's (ENetRole). The zero
// Role, ROLE_None, is that of an actor that has ended, or that the other side does not have.
type Role uint8

const (
	// SimulatedProxy: a client's copy of an actor that it does not own.
	SimulatedProxy Role = 1
	// AutonomousProxy: the copy of the client that owns the actor, and may call its Server RPCs.
	AutonomousProxy Role = 2
	// Authority: this side decides. It is the server, or a client with a torn-off copy.
	Authority Role = 3
)

var roleNames = map[Role]string{SimulatedProxy: "SimulatedProxy", AutonomousProxy: "AutonomousProxy", Authority: "Authority"}

// String returns Unreal's name of the role, without ROLE_.
func (r Role) String() string { return cmp.Or(roleNames[r], "None") }

// Role returns what this world may do with the actor. UE: GetLocalRole.
func (a *Actor) Role() Role {
	switch {
	case a.dead:
		return 0
	case a.torn || a.world.IsServer():
		return Authority
	case a.owned:
		return AutonomousProxy
	}
	return SimulatedProxy
}

// RemoteRole returns what the other side may do with the actor. On the server, the other
// side is the owner's client, or all clients if there is no owner. UE: GetRemoteRole.
func (a *Actor) RemoteRole() Role {
	switch {
	case a.dead || a.torn:
		return 0
	case !a.world.IsServer():
		return Authority
	case a.conn != nil:
		return AutonomousProxy
	}
	return SimulatedProxy
}
