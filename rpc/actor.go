package rpc

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/roster"
)

// An Actor is an object that both sides know. The server spawns it, and each client for which
// the actor is open has a copy. Its methods must be called on the world's goroutine.
type Actor struct {
	_ codec.Never `codec:"an actor cannot be encoded; send a number of your own by which both ends know it"`

	world *World
	class *Class
	// The number by which all sides know the actor; 0 = placed by a client, and not
	// opened by the server yet.
	ref   Ref
	name  string // the name by which both ends know a placed actor; empty = not placed
	seats seats  // the actor's places in lists

	// The game's objects, as returned by the constructors of the bindings.
	own        part   // the object of the actor's class; its binding is nil if the class is not bound
	components []part // by slot; nil until makeObjects

	// Ownership, and the connections for which the actor is open.
	//
	// On a server conn is the connection at the end of the chain of owners; nil =
	// none. On a client it is the connection to the server.
	conn     *Conn
	owned    bool       // client: this side owns the actor
	owner    *Actor     // server: the actor that owns this one; nil = a connection or the server itself does
	children actors     // server: the actors that this one owns
	openings []*opening // one for each connection on which the actor is open; on a client at most one
	dead     bool       // the actor has ended here
	tornOff  bool       // TearOff was called, at the server

	// What the server sends of the actor, and to whom. relevancy and throttle are
	// used on a server only.
	dormancy  dormancy
	relevancy actorRelevancy
	states    actorStates
	throttle  budget.Throttle[*method] // limits the actor's unreliable Multicasts: see Config.MaxRPCPerNetUpdate
}

// seats are an actor's places in four lists: all actors of the world, the actors of its
// class, the actors of its owner, and the AlwaysRelevant actors.
type seats struct{ world, class, owner, always roster.Seat }

// actors is a list of actors in the order in which they were added.
type actors struct{ roster.List[Actor] }

// all yields the actors that are in the list when all is called, except those that
// end during the iteration.
func (l *actors) all(yield func(*Actor) bool) {
	l.All(func(a *Actor) bool { return a.dead || yield(a) })
}

// actorTable lists the actors that are alive in a world. It is used only by the
// world's goroutine, except for alive.
type actorTable struct {
	all    actors       // in the order in which they were spawned or opened
	always actors       // AlwaysRelevant actors that are not torn off
	alive  atomic.Int64 // length of all; safe for concurrent use

	// Placed actors by name. On a server they include razed actors, which were
	// destroyed or torn off.
	//
	// A client may have an actor of the same name on each of several connections. placed
	// then has the oldest, and namesakes has the others, oldest first.
	placed    map[string]*Actor
	namesakes map[string][]*Actor

	// Server only.
	byRef   map[Ref]*Actor
	lastRef Ref // of the newest actor
	// Stand-ins for gonePlaced actors. Clients that join later are told of them.
	gonePlaced []*Actor
}

// assignRef gives an actor the next free Ref.
func (t *actorTable) assignRef(a *Actor) {
	t.lastRef++
	a.ref = t.lastRef
	t.byRef[a.ref] = a
}

// add adds an actor that is now alive.
func (t *actorTable) add(a *Actor) {
	t.alive.Add(1)
	t.all.Add(a, &a.seats.world)
	switch {
	case a.name == "":
	case t.placed[a.name] == nil:
		t.placed[a.name] = a
	default:
		t.namesakes[a.name] = append(t.namesakes[a.name], a)
	}
}

// remove removes an actor that has ended.
func (t *actorTable) remove(a *Actor) {
	t.alive.Add(-1)
	t.all.Remove(&a.seats.world)
	t.always.Remove(&a.seats.always)
	t.removeName(a)
	if t.byRef[a.ref] == a {
		delete(t.byRef, a.ref)
	}
}

// removeName removes an actor that has ended from placed or namesakes. The next
// actor of that name takes its place in placed.
func (t *actorTable) removeName(a *Actor) {
	others := slices.DeleteFunc(t.namesakes[a.name], func(other *Actor) bool { return other == a })
	if t.placed[a.name] == a {
		delete(t.placed, a.name)
		if len(others) > 0 {
			t.placed[a.name] = others[0]
			others = others[1:]
		}
	}
	if len(others) > 0 {
		t.namesakes[a.name] = others
	} else {
		delete(t.namesakes, a.name)
	}
}

// A SpawnOption is an option of [Spawn], [World.Spawn] or [Place].
type SpawnOption func(*Actor)

// AlwaysRelevant opens the actor for every connection, present and future.
//
// The actor can't open for a connection that has no free channel, or whose MaxBunch is too
// small. That is logged, but Spawn does not fail because of a peer.
func AlwaysRelevant() SpawnOption { return func(a *Actor) { a.relevancy.always = true } }

// OnlyRelevantToOwner opens an actor for its owner only. Other clients don't see it however
// near they are, and it needs no At or Relevant in its class. SetOwner closes the previous
// owner's copy. Spawn returns an error if AlwaysRelevant is also set.
//
// UE: bOnlyRelevantToOwner. In Unreal the copy closes after RelevantTimeout, and
// receives nothing until then.
func OnlyRelevantToOwner() SpawnOption { return func(a *Actor) { a.relevancy.onlyOwner = true } }

// RelevantAsOwner makes an actor relevant to the connections to which its owner is relevant.
// A weapon, for instance, is relevant to those that see the pawn carrying it.
//
// The actor follows another actor and has its position and cull distance. It follows
// the actor that owns it. If a connection owns it, it follows the actor that the
// connection sees from: see [Conn.SetView]. If the followed actor is AlwaysRelevant,
// all connections that have a view see both. A copy closes 5 s after its client last
// saw the followed actor, even the copy of a previous owner.
//
// If there is no actor to follow, or [Relevant] decides about that actor, only the owner
// has this actor. SetOwner then closes the previous owner's copy.
//
// While the server itself owns the actor, the [At] of the actor's own class gives
// its position. Without an At no connection has the actor.
//
// UE: bNetUseOwnerRelevancy, RelevantTimeout.
func RelevantAsOwner() SpawnOption { return func(a *Actor) { a.relevancy.asOwner = true } }

// Spawn makes an actor of b's class. It returns the actor and its object. owner owns
// the actor; nil is the server itself. UE: SpawnActorDeferred.
//
// Spawn first calls b's constructor. It then calls set, unless set is nil, with the object
// that the constructor returned. Finally it opens the actor for the connection that owns
// it. The open carries the states as set leaves them. If a state exceeds a bound, Spawn
// destroys the actor and returns an error that names the field.
//
// Make calls to clients after Spawn. A call to a client in the constructor or in
// set, or an OpenTo there, opens the actor earlier and without its states. The
// states then arrive later, in no order with calls.
//
// If the owner's connection has begun to close, Spawn makes nothing and returns [ErrClosed].
// The actors of such a connection exist until OnDisconnect has run. A game that spawns for them
// in a tick, such as a pawn for a controller, must expect this error whenever a player leaves.
//
// When OnDisconnect has run, the actors that the connection owns are destroyed, with
// all actors that they own in turn. To keep some, use [World.SetOwner] in
// OnDisconnect. In Unreal only the controller and its pawn are destroyed.
func Spawn[T any](b *Binding[T], owner Owner, set func(object T), options ...SpawnOption) (*Actor, T, error) {
	var object T
	a, err := b.world.spawn(b.untyped.class, owner, options, storeThen(&object, set))
	return a, object, err
}

// storeThen returns the set function of spawn. The function stores the object that the
// constructor made in *object. It then passes the object to set, which may be nil.
func storeThen[T any](object *T, set func(T)) func(any) {
	return func(made any) {
		*object = made.(T)
		if set != nil {
			set(*object)
		}
	}
}

// applyOptions applies the options of Spawn.
func (a *Actor) applyOptions(options []SpawnOption) error {
	for i, option := range options {
		if option == nil {
			return fmt.Errorf("rpc: Spawn of a %q: option %d is nil", a.class.name, i+1)
		}
		option(a)
	}
	if a.relevancy.always && a.relevancy.onlyOwner {
		return fmt.Errorf("rpc: Spawn of a %q: AlwaysRelevant is for everybody and OnlyRelevantToOwner for nobody else: name one",
			a.class.name)
	}
	return nil
}

// ensureOpen opens the actor for c, unless the actor is open there or the client has a
// dormant copy. It cancels a close that still waits.
func (a *Actor) ensureOpen(c *Conn) error {
	a.cancelClose(c)
	if a.openingOn(c) != nil || c.shown.hasDormant(a) {
		return nil
	}
	return a.open(c)
}

// closeToPrevious closes the actor for its previous connection.
//
// If the client has yet to acknowledge the open, the close waits for that ack, and
// resume can cancel it until then. Without the wait, an actor that changes owners more
// than once per round trip would queue ever more opens and closes.
func (a *Actor) closeToPrevious(previous *Conn) {
	o := a.openingOn(previous)
	if o == nil || !previous.usable() || o.acknowledged() {
		a.CloseTo(previous)
		return
	}
	o.closePending = true
	o.updateVisible()
	if a.name == "" { // tellOwners has already told the copy of a placed actor
		_ = a.tellOwner(previous) // on an error the connection is closing
	}
	a.closeAtFlush()
}

// cancelClose cancels a waiting close of partFrom, because c has the actor again.
func (a *Actor) cancelClose(c *Conn) {
	if o := a.openingOn(c); o != nil {
		o.cancelClose()
	}
}

// closePending closes parted openings of the actor. Flush calls it to close the openings whose
// clients have acknowledged the open. TearOff calls it with atOnce to close all of them. A copy
// of a placed actor then stays without a channel, like the copies of other previous owners.
func (a *Actor) closePending(atOnce bool) {
	for _, o := range slices.Backward(a.openings) {
		switch {
		case !o.closePending:
		case atOnce || o.acknowledged():
			a.closeOpening(o, Relevancy)
		default:
			a.closeAtFlush()
		}
	}
}

// World returns the actor's world.
func (a *Actor) World() *World { return a.world }

// Class returns the actor's class.
func (a *Actor) Class() *Class { return a.class }

// Conn returns the actor's connection. On the server this is the connection at the
// end of the chain of owners, or nil if there is none. On a client it is the
// connection to the server, or nil if the copy is torn off.
func (a *Actor) Conn() *Conn {
	if a.tornOff && !a.world.IsServer() {
		return nil
	}
	return a.conn
}

// Owned reports whether a client owns the actor. On a client it reports whether this
// client owns it, on the server whether any client does.
func (a *Actor) Owned() bool {
	if a.world.IsServer() {
		return a.conn != nil
	}
	return a.owned
}

// Alive reports whether the actor has not ended. On a client it reports this for the copy.
func (a *Actor) Alive() bool { return !a.dead }

// noActor describes, in an error's text, an actor that no world has made.
const noActor = "a nil *Actor or an Actor{}: take the one that Spawn returned or that the constructor was given"

// valid reports whether a world made the actor.
func (a *Actor) valid() bool { return a != nil && a.world != nil }

// openingOn returns the actor's opening on c, or nil if the actor is not open there.
func (a *Actor) openingOn(c *Conn) *opening {
	if c == nil {
		return nil
	}
	if c.server {
		return c.shown.openings[a]
	}
	// A client's copy has at most one opening, which may be on another connection.
	for _, o := range a.openings {
		if o.conn == c {
			return o
		}
	}
	return nil
}

// parts yields the bound objects of the actor, first the actor's own.
func (a *Actor) parts(yield func(part) bool) {
	if a.own.bound() && !yield(a.own) {
		return
	}
	for _, p := range a.components {
		if p.bound() && !yield(p) {
			return
		}
	}
}

// awaitsAcks reports whether the actor's class or a component's class has an
// OnOpenAcked function. It may be called before the objects are made.
func (a *Actor) awaitsAcks() bool {
	awaits := func(p part) bool { return p.binding != nil && p.binding.onOpenAcked != nil }
	return awaits(a.own) || slices.ContainsFunc(a.components, awaits)
}

// partOf returns the object for c, which is the actor's class or the class of a
// component. For other classes it returns the zero partOf.
func (a *Actor) partOf(c *Class) part {
	switch {
	case c == a.class:
		return a.own
	case c.actor == a.class && c.slot < len(a.components):
		return a.components[c.slot]
	}
	return part{}
}

// makeObjects calls the constructors bound to the actor's class and its components.
func (a *Actor) makeObjects() {
	a.bindComponents()
	if a.own.binding != nil {
		a.own.object = a.own.binding.construct(a)
		if !a.dead && a.own.object != nil { // the constructor may have ended the actor
			a.own.binding.actors.Add(a, &a.seats.class)
		}
	}
	for slot := range a.components {
		if p := &a.components[slot]; p.binding != nil {
			p.object = p.binding.construct(a)
		}
	}
}

// bindComponents finds the bindings of the components. It runs before the
// constructors, because a constructor may call a component's method.
func (a *Actor) bindComponents() {
	if len(a.class.components) == 0 {
		return
	}
	a.components = make([]part, len(a.class.components))
	for slot, class := range a.class.components {
		a.components[slot].binding = a.world.bindings[class]
	}
}

// makeReplicas makes the replicas of the states that are bound here. For the first
// actor of a class it also warns of states that are not bound.
func (a *Actor) makeReplicas() {
	if len(a.class.states) == 0 {
		return
	}
	a.states.replicas = make([]replica, len(a.class.states))
	for p := range a.parts {
		p.binding.replicate(p.object, a.states.replicas)
	}
	if b := a.own.binding; b != nil && !b.warned {
		b.warned = true
		a.warnUnbound()
	}
}

// warnUnbound logs a warning about states that have no Replicate although their class
// is bound. Nothing else would show a forgotten Replicate.
func (a *Actor) warnUnbound() {
	var states []string
	for i, d := range a.class.states {
		if a.states.replicas[i] == nil && a.partOf(d.class).binding != nil {
			states = append(states, d.String())
		}
	}
	if len(states) > 0 {
		a.world.log.Warn("no Replicate or ReplicateList says where states are kept here",
			"class", a.class.name, "states", strings.Join(states, ", "))
	}
}

// Ref returns the number by which all sides know the actor.
func (a *Actor) Ref() Ref {
	if a == nil {
		return 0
	}
	return a.ref
}

// String returns the class name and the actor's Ref.
func (a *Actor) String() string {
	if !a.valid() {
		return "no actor"
	}
	return fmt.Sprintf("%s %d", a.class.name, uint64(a.ref))
}

// Channel returns the actor's channel on c, or the zero Channel if the actor is not open
// there. In [Config].OnConnect, an AlwaysRelevant actor is not open yet.
func (a *Actor) Channel(c *Conn) Channel {
	if o := a.openingOn(c); o != nil {
		return Channel{c, o.channel}
	}
	return Channel{}
}
