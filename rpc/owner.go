package rpc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quivernet/quiver/internal/tasks"
)

// An Owner owns actors. It is a *[Conn], or another *[Actor] of the same server. UE (Unreal
// Engine's counterpart): AActor::Owner.
//
// An actor that owns other actors may have an owner itself, and such a chain ends at a connection
// or at the server itself. If it ends at a connection, [Actor.Conn] returns that connection for
// every actor in the chain. Its client may call Server RPCs, runs Client RPCs, and gets the fields
// that are for the owner. UE: the chain of GetNetConnection.
type Owner interface {
	// chainEnds returns both ends of the chain. owner is the direct owner if it is an actor, and
	// nil otherwise. conn is the connection at the far end, or nil if the chain ends at the
	// server.
	chainEnds() (owner *Actor, conn *Conn)
}

func (c *Conn) chainEnds() (*Actor, *Conn) { return nil, c }

func (a *Actor) chainEnds() (*Actor, *Conn) {
	if a == nil {
		return nil, nil
	}
	return a, a.conn
}

// chainEndsOf returns both ends of the chain that begins at o. o is nil if that's the server.
func chainEndsOf(o Owner) (owner *Actor, conn *Conn) {
	if o == nil {
		return nil, nil
	}
	return o.chainEnds()
}

// checkOwner returns an error if a can't be given to an owner whose chain has these ends. Spawn
// calls it before making the actor, and passes a nil a.
func (w *World) checkOwner(a, owner *Actor, conn *Conn) error {
	switch {
	case owner != nil && owner.world != w, conn != nil && conn.world != w:
		return errorf("owner belongs to another world: %w", ErrWrongRole)
	case owner != nil && (owner.dead || owner.tornOff):
		return errorf("owner %v is destroyed or torn off: %w", owner, ErrClosed)
	case conn != nil && !conn.life.mayJoin() && !conn.usable():
		// mayJoin must be called before usable. In the reverse order, both would return false if
		// the connection joined between the two calls.
		return errorf("owner %v: %w", conn, ErrClosed)
	}
	for o := owner; o != nil && a != nil; o = o.owner {
		if o == a {
			return fmt.Errorf("owner %v is the actor itself or owned by it", owner)
		}
	}
	return nil
}

// OnOwner registers fn to run when the owner of an actor of the class has changed. It panics if the
// class already has such a function. UE: PossessedBy and UnPossessed on the server, OnRep_Owner on
// clients.
//
// On the server, fn runs if [World.SetOwner] has set another owner, or if [Actor.Conn] has
// changed because of an owner further up the chain. It runs after the actor has opened for the new
// owner, with the states from before the change. On a client, fn runs if [Actor.Owned] has
// changed.
//
// fn doesn't run for the first owner, nor when the actor ends.
func OnOwner[T any](b *Binding[T], fn func(object T)) {
	mustHook("OnOwner", b.untyped.class, fn == nil, b.untyped.onOwner != nil)
	b.untyped.onOwner = func(object any) { fn(object.(T)) }
}

// setOwned is called on a client when the server says whether the client owns the actor. It runs
// OnOwner's functions if that has changed.
func (a *Actor) setOwned(owned bool) {
	if a.owned != owned {
		a.owned = owned
		a.ownerChanged()
	}
}

// ownerChanged runs OnOwner's functions for the actor and its components.
func (a *Actor) ownerChanged() {
	for p := range a.parts {
		if !a.dead && p.binding.onOwner != nil {
			doing := tasks.Doing{What: "OnOwner of ", Of: p.binding.class}
			a.world.game.During(doing, func() { p.binding.onOwner(p.object) })
		}
	}
}

// SetOwner gives the actor to a connection, to another actor, or to the server itself (nil). Only
// the server may call SetOwner. UE: SetOwner.
//
// If this changes the connection at the end of the chain, the actor and everything that it owns
// open for the new connection, and both clients are told. Unless an open has to wait, SetOwner
// sends it immediately, with the current states, including the owner's fields. (Unreal sends the
// values at the end of the tick.) Since [OnOwner] runs only after the open, clear any fields that
// the new owner must not see before you call SetOwner.
//
// Server RPCs of the previous client that are in flight are dropped and counted in its
// Drops.NotOwner.
//
// If the actor can't be opened for the new client, or the client can't be told, SetOwner returns an
// error, although the client does own the actor. Only in two cases does an error mean that nothing
// has changed: if the actor would own itself, directly or through other actors, and for
// [ErrClosed], which means that the new owner or the actor has ended, or that the new owner's
// connection is closing, even if OnDisconnect hasn't run yet.
//
// If the previous client had the actor only as its owner, its copy closes immediately. This is so
// if [Actor.OpenTo] wasn't called for that client while it had the copy, and one of the following
// is true:
//
//   - The class has neither [At] nor [Relevant].
//   - The actor is [OnlyRelevantToOwner].
//   - The actor is [RelevantAsOwner] of an actor without a position.
//
// Other copies close 5 s after they were last relevant, as always.
//
// If the previous client hasn't acknowledged the open of its copy yet, the close waits for the
// acknowledgment, and the copy gets neither updates nor Multicasts until then. If the client owns
// the actor again before the close, or the actor becomes relevant to the client, the copy stays,
// and the reliable Multicasts that it has missed are counted in Drops.ActorClosed. A copy that has
// closed doesn't open again until the client has acknowledged the close, a round trip later. If an
// actor changes owners faster than that, call OpenTo for the clients concerned.
//
// When an owner is destroyed, the actors that it owned pass to the server. When a connection ends,
// all actors of its chains are destroyed after OnDisconnect, each before its owner. To keep an
// actor and everything that it owns, call SetOwner(a, nil) in OnDisconnect, because OnClose of a's
// owner runs too late. (In Unreal, only the controller and its pawn are destroyed.)
func (w *World) SetOwner(a *Actor, to Owner) error {
	if err := a.checkAuthority("SetOwner"); err != nil {
		return err
	}
	if a.world != w {
		return errOtherWorld(fmt.Sprintf("SetOwner of %v", a))
	}
	owner, conn := chainEndsOf(to)
	if err := w.checkOwner(a, owner, conn); err != nil {
		return errorf("rpc: SetOwner of %v: %w", a, err)
	}
	if a.owner == owner && a.conn == conn {
		return nil
	}
	a.leaveOwner()
	a.joinOwner(owner, conn)
	changed, err := a.setConn(conn)
	if len(changed) == 0 {
		// Since the connection is still the same, nothing has changed for the actors that this one
		// owns.
		a.ownerChanged()
	}
	for _, one := range changed {
		one.ownerChanged()
	}
	return err
}

// joinOwner sets the actor's owner and adds the actor to the owner's list of actors.
func (a *Actor) joinOwner(owner *Actor, conn *Conn) {
	a.owner = owner
	switch {
	case owner != nil:
		owner.children.Add(a, &a.seats.owner)
	case conn != nil:
		conn.shown.owned.Add(a, &a.seats.owner)
	}
}

// leaveOwner undoes joinOwner.
func (a *Actor) leaveOwner() {
	switch {
	case a.owner != nil:
		a.owner.children.Remove(&a.seats.owner)
	case a.conn != nil:
		a.conn.shown.owned.Remove(&a.seats.owner)
	}
	a.owner = nil
}

// setConn makes conn the far end of the chain for the actor and everything it owns, and then tells
// the clients. It returns the actors whose connection has changed, and the first error from telling
// the clients.
func (a *Actor) setConn(conn *Conn) (changed []*Actor, first error) {
	previous := a.conn
	if previous == conn {
		return nil, nil
	}
	changed = a.withOwned(nil)
	for _, one := range changed {
		one.conn = conn
		if o := one.openingOn(conn); o != nil {
			o.cancelClose() // closeToPrevious delayed it, and conn gets the actor back
		}
		one.updateVisible()
	}
	for _, one := range changed {
		if err := one.tellOwners(previous, conn); err != nil && first == nil {
			first = err
		}
	}
	return changed, first
}

// withOwned appends the actor and everything it owns, directly or through other actors. Each
// actor comes after its owner.
func (a *Actor) withOwned(list []*Actor) []*Actor {
	list = append(list, a)
	for i := len(list) - 1; i < len(list); i++ {
		list = slices.AppendSeq(list, list[i].children.all)
	}
	return list
}

// tellOwners tells both clients that the owner has changed. The actor opens for the new client.
// It closes for the previous client if that client had it only as its owner.
func (a *Actor) tellOwners(previous, conn *Conn) error {
	if a.tornOff {
		return nil
	}
	closes := a.onlyAsOwner(previous)
	if previous != nil && (!closes || a.name != "") {
		// A client whose copy ends needn't be told, but the copy of a placed actor stays without a
		// channel. An error means that the connection is closing.
		_ = a.tellOwner(previous)
	}
	if closes {
		a.closeToPrevious(previous)
	}
	switch {
	case conn == nil:
		return nil
	case conn.life.mayJoin():
		// The client hasn't joined yet. Once it has, openOwned opens the actor.
		return nil
	case a.openingOn(conn) == nil:
		return a.open(conn)
	}
	return a.tellOwner(conn)
}

// onlyAsOwner reports whether the actor is open for the previous connection, which may be nil, only
// because that connection owned it. If so, the actor has no reason to stay open there.
func (a *Actor) onlyAsOwner(previous *Conn) bool {
	if previous == nil {
		return false
	}
	r := &a.relevancy
	ownerOnly := r.rule == byHand || r.rule == byOwner || r.asOwner && r.rule == byGrid && !r.place.Somewhere()
	seesFromIt := a == previous.shown.view.target
	return ownerOnly && !r.always && !previous.shown.opened[a] && !seesFromIt
}

// orphanChildren gives the actors that a owns to the server. It returns all actors whose
// connection has changed as a result.
func (a *Actor) orphanChildren() (changed []*Actor) {
	for child := range a.children.all {
		child.leaveOwner()
		more, _ := child.setConn(nil)
		changed = append(changed, more...)
	}
	return changed
}

// destroyOwned destroys one of the actors that an ended connection still owns, and queues itself as
// a task for the next one. An actor is destroyed before its owner.
func (c *Conn) destroyOwned() {
	a := c.shown.owned.First()
	if a == nil {
		return
	}
	// Queue the next task first, because OnClose may panic.
	c.world.game.Later(c, tasks.Doing{}, c.destroyOwned)
	for child := a.children.First(); child != nil; child = a.children.First() {
		a = child
	}
	_ = c.world.Destroy(a)
}

// Owner returns, on the server, the actor that owns this one. It returns nil if the owner is a
// connection or the server itself. A client doesn't know the owner unless a state has a [Ref] to
// it. UE: GetOwner.
func (a *Actor) Owner() *Actor { return a.owner }

// ownerName returns, on the server, the name of the owning connection for errors and logs.
func (a *Actor) ownerName() string {
	if a.conn == nil {
		return "nobody"
	}
	return a.conn.String()
}

// A Role says what a world may do with its actor. The numbers are Unreal's (ENetRole). The zero
// Role, ROLE_None, means that the actor has ended, or that the other side doesn't have it.
type Role uint8

const (
	// SimulatedProxy is the role of a client's copy if another client, or nobody, owns the actor.
	SimulatedProxy Role = 1
	// AutonomousProxy is the role of the owner's copy. The owner may call the actor's Server RPCs.
	AutonomousProxy Role = 2
	// Authority is the role of the server's actor, and of a client's copy that was torn off.
	Authority Role = 3
)

var roleNames = map[Role]string{
	SimulatedProxy:  "SimulatedProxy",
	AutonomousProxy: "AutonomousProxy",
	Authority:       "Authority",
}

// String returns Unreal's name for the role, without ROLE_.
func (r Role) String() string { return cmp.Or(roleNames[r], "None") }

// Role returns what this world may do with the actor. UE: GetLocalRole.
func (a *Actor) Role() Role {
	switch {
	case a.dead:
		return 0
	case a.tornOff || a.world.IsServer():
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
	case a.dead || a.tornOff:
		return 0
	case !a.world.IsServer():
		return Authority
	case a.conn != nil:
		return AutonomousProxy
	}
	return SimulatedProxy
}
