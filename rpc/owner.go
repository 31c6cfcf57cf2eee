package rpc

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quivernet/quiver/internal/tasks"
)

// Owner owns actors. It is a *[Conn], or another *[Actor] of the same server, which may have an owner as well. Such a chain ends at a
// connection, [Actor.Conn], or at the server itself. The client of that connection may call Server RPCs, runs Client RPCs, and gets the fields
// that are for the owner. UE: AActor::Owner; the chain of GetNetConnection.
type Owner interface {
	// chainEnds returns both ends of the chain: the actor that owns directly, nil if it is no actor, and the connection at the far end, nil when
	// that is the server.
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

// checkOwner returns an error when an owner with these ends of its chain cannot own a. Spawn, which has yet to make the actor, passes nil for a.
func (w *World) checkOwner(a, owner *Actor, conn *Conn) error {
	switch {
	case owner != nil && owner.world != w, conn != nil && conn.world != w:
		return fmt.Errorf("the owner is of another world: %w", ErrWrongRole)
	case owner != nil && (owner.dead || owner.torn):
		return fmt.Errorf("the owner, %v, is destroyed or torn off: %w", owner, ErrClosed)
	case conn != nil && !conn.mayJoin() && !conn.usable(): // in this order: a connection that joins meanwhile is still found usable
		return fmt.Errorf("the owner is %v: %w", conn, ErrClosed)
	}
	for o := owner; o != nil && a != nil; o = o.owner {
		if o == a {
			return fmt.Errorf("the owner, %v, is the actor itself, or owned by it", owner)
		}
	}
	return nil
}

// OnOwner makes fn run when the owner of an actor of the class has changed: on the server when [World.SetOwner] gave it another, or when
// its [Actor.Conn] has changed with an owner further up the chain; on a client when [Actor.Owned] has changed. It does not run for the
// first owner, nor when the actor ends. On the server the opens for the new owner have been made by then, with the states as they were. It
// panics if there is a function already. UE: PossessedBy and UnPossessed on the server, OnRep_Owner on clients.
func OnOwner[T any](b *Binding[T], fn func(object T)) {
	mustHook("OnOwner", b.untyped.class, fn == nil, b.untyped.onOwner != nil)
	b.untyped.onOwner = func(object any) { fn(object.(T)) }
}

// setOwned notes, on a client, whether it owns the actor.
func (a *Actor) setOwned(owned bool) {
	if a.owned != owned {
		a.owned = owned
		a.ownerChanged()
	}
}

// ownerChanged runs OnOwner.
func (a *Actor) ownerChanged() {
	for p := range a.parts {
		if !a.dead && p.binding.onOwner != nil {
			a.world.game.During(tasks.Doing{What: "OnOwner of ", Of: p.binding.class}, func() { p.binding.onOwner(p.object) })
		}
	}
}

// SetOwner gives the actor to a connection, to another actor, or to the server itself (nil). Server only. UE: SetOwner; there the actors that a
// leaving player's pawn owned stay.
//
// When this changes the connection at the end of the chain, the actor and all that it owns open for the new connection, and the clients of both
// are told. An open that need not wait is made in SetOwner, with the states as they are then, the owner's fields as well, and [OnOwner] runs
// after it: clear before what the previous owner had and the new one must not see. In Unreal what is set by the end of the tick counts.
// Server RPCs of the previous client that are still on their way are dropped, and counted in its Drops.NotOwner.
//
// When the new client cannot take the actor, or cannot be told, SetOwner returns why; it owns the actor all the same. Two errors change nothing:
// the actor would own itself, directly or through others; and [ErrClosed], because the new owner's connection has begun to close, which happens
// before OnDisconnect runs, or because the new owner or the actor has ended.
//
// The previous client's copy closes at once if the client had it only as the owner: the class has neither [At] nor [Relevant], or the actor is
// [OnlyRelevantToOwner], or [RelevantAsOwner] of one that stands nowhere, and nobody has called its [Actor.OpenTo]. Other copies close 5 s
// after they were last relevant, as always.
//
// A copy whose open the client has yet to acknowledge closes only then; meanwhile it gets nothing. It stays if by then the client owns the actor
// again, or the actor is relevant to it. A copy that has closed opens again only when the client has acknowledged the close, a round trip
// later. So when an actor goes to and fro faster than that, call OpenTo for the clients among whom it does.
//
// When an owner is destroyed, the actors that it owned belong to the server. When a connection ends, all actors of its chains are destroyed
// after OnDisconnect, each before its owner. SetOwner(a, nil) in OnDisconnect keeps a and all that a owns; in OnClose of the pawn that owns a it
// comes too late.
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

// listAt adds the actor to those of its owner.
func (a *Actor) listAt(owner *Actor, conn *Conn) {
	a.owner = owner
	switch {
	case owner != nil:
		owner.children.Add(a, &a.seats.owner)
	case conn != nil:
		conn.shown.owned.Add(a, &a.seats.owner)
	}
}

// unlist removes the actor from those of its owner.
func (a *Actor) unlist() {
	switch {
	case a.owner != nil:
		a.owner.children.Remove(&a.seats.owner)
	case a.conn != nil:
		a.conn.shown.owned.Remove(&a.seats.owner)
	}
	a.owner = nil
}

// inherit makes conn the end of the chain for the actor and all that it owns, and tells the clients. It returns these actors; none when conn was
// the end already.
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

// withOwned appends the actor and all that it owns, directly or through others, each after its owner.
func (a *Actor) withOwned(list []*Actor) []*Actor {
	list = append(list, a)
	for i := len(list) - 1; i < len(list); i++ {
		list = slices.AppendSeq(list, list[i].children.all)
	}
	return list
}

// tellOwners tells the clients of both connections that the owner has changed. Where the previous one had the actor only as its owner, it closes
// there; where the new one does not have it, it opens. A client that has yet to join is told by openOwned when it has.
func (a *Actor) tellOwners(previous, conn *Conn) error {
	if a.torn {
		return nil
	}
	closes := a.onlyAsOwner(previous)
	if previous != nil && (!closes || a.name != "") { // the copy of a placed actor outlives its channel
		_ = a.tellOwner(previous) // an error means that the connection is closing
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

// onlyAsOwner reports whether the actor was open for its previous connection only because that owned it. A private actor is relevant to nobody
// but its owner. It stays open all the same when it is AlwaysRelevant, when the game has called OpenTo, and for a client that views from it.
func (a *Actor) onlyAsOwner(previous *Conn) bool {
	r := &a.relevancy
	private := r.rule == byHand || r.rule == byOwner || r.asOwner && r.rule == byGrid && !r.place.Somewhere()
	return private && previous != nil && !r.always && !r.named && a != previous.shown.view.target
}

// orphan gives the actors that a owns to the server, and returns all whose connection has changed.
func (a *Actor) orphan() (heirs []*Actor) {
	for child := range a.children.all {
		child.unlist()
		more, _ := child.inherit(nil)
		heirs = append(heirs, more...)
	}
	return heirs
}

// destroyOwned destroys the actors that a connection which has ended still owns: each in a task of its own, and before its owner.
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

// Owner returns, on the server, the actor that owns this one; nil if a connection or the server itself does. Clients do not know it: put a
// [Ref] into a state to tell them. UE: GetOwner.
func (a *Actor) Owner() *Actor { return a.owner }

// ownerName names who owns the actor, on the server.
func (a *Actor) ownerName() string {
	if a.conn == nil {
		return "nobody"
	}
	return a.conn.String()
}

// Role says what a world may do with its actor. The numbers are Unreal's (ENetRole); the zero Role, ROLE_None, is that of an actor that
// has ended, and of one that the other side does not have.
type Role uint8

const (
	// SimulatedProxy: a client's copy of an actor that another owns.
	SimulatedProxy Role = 1
	// AutonomousProxy: the copy of the client that owns the actor, and may call its Server RPCs.
	AutonomousProxy Role = 2
	// Authority: this side decides: the server, and a client that has a torn-off copy.
	Authority Role = 3
)

var roleNames = map[Role]string{SimulatedProxy: "SimulatedProxy", AutonomousProxy: "AutonomousProxy", Authority: "Authority"}

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

// RemoteRole returns what the other side may do with the actor: on the server its owner's client, or all clients when it has no owner.
// UE: GetRemoteRole.
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
