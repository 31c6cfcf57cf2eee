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

// Actor is an object that both sides know: the server spawns it, clients for which it is open have a copy. Its methods
// belong to the world's goroutine.
type Actor struct {
	_ codec.Never `codec:"an actor cannot be encoded; send a number of your own by which both ends know it"`

	world *World
	class *Class
	ref   Ref    // the number by which all sides know it; 0: a client placed it, and the server has not opened it yet
	name  string // of a placed actor, by which both ends know it
	seats seats  // its places in lists

	// The game's objects, as the bindings' constructors returned them.
	own        part   // of its class; its binding is nil if the class is not bound
	components []part // by slot; nil until makeObjects

	// Who owns it, and for whom it is open.
	conn     *Conn      // server: of the client at the end of the chain of owners, nil = none; client: to the server
	owned    bool       // client: this side owns it
	owner    *Actor     // server: the actor that owns it, nil = a connection or the server does
	children actors     // server: the actors that it owns
	openings []*opening // where it is open; on a client at most the one channel to the server
	dead     bool       // it has ended here
	torn     bool       // TearOff was called, at the server

	// What the server sends of it, and to whom. relevancy and throttle are the server's alone.
	dormancy  dormancy
	relevancy actorRelevancy
	states    actorStates
	throttle  budget.Throttle[*method] // limits its multicasts
}

// seats are an actor's places in the lists of all actors of the world, of those of its class, of those of its owner, and of those that
// are AlwaysRelevant.
type seats struct{ world, class, owner, always roster.Seat }

// actors lists actors in the order in which they came.
type actors struct{ roster.List[Actor] }

// all yields the actors that were listed when it began, except those that have ended meanwhile.
func (l *actors) all(yield func(*Actor) bool) {
	l.All(func(a *Actor) bool { return a.dead || yield(a) })
}

// actorTable lists the actors that live in a world. The world's goroutine owns it, except alive.
type actorTable struct {
	all    actors       // in the order in which they were spawned or opened
	always actors       // AlwaysRelevant, and not torn off
	alive  atomic.Int64 // how many are in all; read by any goroutine

	// Placed actors by name, on a server also razed ones. A client may have an actor of one name on each of several connections: placed has the
	// one that came first, and when that ends, the next of its namesakes.
	placed    map[string]*Actor
	namesakes map[string][]*Actor

	// Of a server.
	byRef map[Ref]*Actor
	last  Ref      // of the newest actor
	razed []*Actor // stand-ins for placed actors that were destroyed or torn off; clients that join later are told
}

// number gives an actor the next Ref.
func (t *actorTable) number(a *Actor) {
	t.last++
	a.ref = t.last
	t.byRef[a.ref] = a
}

// add enters an actor that begins to live.
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

// remove forgets an actor that has ended.
func (t *actorTable) remove(a *Actor) {
	t.alive.Add(-1)
	t.all.Remove(&a.seats.world)
	t.always.Remove(&a.seats.always)
	t.removeName(a)
	if t.byRef[a.ref] == a {
		delete(t.byRef, a.ref)
	}
}

// removeName forgets the name of an actor that has ended, and lets the next actor of that name take its place.
func (t *actorTable) removeName(a *Actor) {
	others := slices.DeleteFunc(t.namesakes[a.name], func(other *Actor) bool { return other == a })
	if t.placed[a.name] == a {
		delete(t.placed, a.name)
		if len(others) > 0 {
			t.placed[a.name], others = others[0], others[1:]
		}
	}
	if len(others) > 0 {
		t.namesakes[a.name] = others
	} else {
		delete(t.namesakes, a.name)
	}
}

// SpawnOption is an option of [World.Spawn].
type SpawnOption func(*Actor)

// AlwaysRelevant opens the actor for every connection, present and future. A connection that cannot take it, because it has no channel
// left or a smaller MaxBunch, does without it, and the log says so: Spawn does not fail for what a peer does.
func AlwaysRelevant() SpawnOption { return func(a *Actor) { a.relevancy.always = true } }

// OnlyRelevantToOwner opens an actor for nobody but its owner, however near others are, and even when its class has neither At
// nor Relevant. The previous owner's copy closes with SetOwner. With AlwaysRelevant beside it Spawn returns an error. UE:
// bOnlyRelevantToOwner; there it closes after RelevantTimeout, and gets nothing meanwhile.
func OnlyRelevantToOwner() SpawnOption { return func(a *Actor) { a.relevancy.onlyOwner = true } }

// RelevantAsOwner makes an actor relevant to those to whom its owner is, as a weapon is to those who see the pawn that bears it. It
// counts as standing where its owner does, or where the view of the connection that owns it does, see [Conn.SetView], with the cull
// distance of that actor; when that actor is AlwaysRelevant, all who see from somewhere see it. When there is no such actor, or
// [Relevant] decides about it, only the owner has the actor, and the previous owner's copy closes with SetOwner. Other copies close 5 s
// after their client last saw the owner, also the previous owner's. While the server itself owns it, it is where its own class's [At] says;
// nobody has it then when there is none. UE: bNetUseOwnerRelevancy, RelevantTimeout.
func RelevantAsOwner() SpawnOption { return func(a *Actor) { a.relevancy.asOwner = true } }

// Spawn makes an actor of b's class, which owner owns, or the server itself (nil). It calls set, unless that is nil, with the object that
// b's constructor returned, and opens the actor for the connection that owns it: the open carries the states as set leaves them. A call to
// a client from the constructor or set, or an OpenTo there, opens the actor earlier, without the states, which follow in no order with calls:
// make it after Spawn. When a state is beyond a bound Spawn destroys the actor, and the error names the field. Spawn returns the object too.
// For an owner whose connection has begun to close Spawn returns [ErrClosed] and makes nothing. The actors of that connection live on until
// OnDisconnect has run, so a game that spawns for them at a tick, such as a pawn for a controller, meets this error whenever a player leaves.
// After a connection has ended and OnDisconnect has run, the actors that it owns are destroyed, and all that they own in turn;
// [World.SetOwner] in OnDisconnect keeps those that shall stay. UE: SpawnActorDeferred; there only the controller and its pawn are destroyed.
func Spawn[T any](b *Binding[T], owner Owner, set func(object T), options ...SpawnOption) (*Actor, T, error) {
	var object T
	a, err := b.world.spawn(b.untyped.class, owner, options, filler(&object, set))
	return a, object, err
}

// filler returns the function that notes which object a constructor has made, and calls set with it, unless that is nil.
func filler[T any](object *T, set func(T)) func(any) {
	return func(made any) {
		if *object = made.(T); set != nil {
			set(*object)
		}
	}
}

// apply applies the options of Spawn.
func (a *Actor) apply(options []SpawnOption) error {
	for i, option := range options {
		if option == nil {
			return fmt.Errorf("rpc: Spawn of a %q: option %d is nil", a.class.name, i+1)
		}
		option(a)
	}
	if a.relevancy.always && a.relevancy.onlyOwner {
		return fmt.Errorf("rpc: Spawn of a %q: AlwaysRelevant is for everybody and OnlyRelevantToOwner for nobody else: name one", a.class.name)
	}
	return nil
}

// show opens the actor for c, unless c has it: open, or asleep.
func (a *Actor) show(c *Conn) error {
	a.resume(c)
	if a.openingOn(c) != nil || c.shown.hasDormant(a) {
		return nil
	}
	return a.open(c)
}

// partFrom closes the actor for its previous connection. If the client has yet to acknowledge the open, the close waits for that, so that resume
// can still cancel it. Otherwise an actor that changes hands more often than once a round trip would queue ever more opens and closes.
func (a *Actor) partFrom(previous *Conn) {
	o := a.openingOn(previous)
	if o == nil || !previous.usable() || o.acknowledged() {
		a.CloseTo(previous)
		return
	}
	o.parted = true
	o.look()
	if a.name == "" { // tellOwners has told the copy of a placed actor
		_ = a.tellOwner(previous) // an error means that the connection is closing
	}
	a.closeAtFlush()
}

// resume cancels the close of partFrom that still waits: c has the actor again.
func (a *Actor) resume(c *Conn) {
	if o := a.openingOn(c); o != nil {
		o.stay()
	}
}

// closeParted closes the parted openings of the actor: Flush those whose clients have acknowledged the open, TearOff all of them (atOnce). Placed
// copies then live on without a channel, as those of other previous owners do.
func (a *Actor) closeParted(atOnce bool) {
	for _, o := range slices.Backward(a.openings) {
		switch {
		case !o.parted:
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

// Conn returns, on the server, the connection at the end of the chain of owners, or nil; on a client the connection to the server, or nil
// for a copy that is torn off.
func (a *Actor) Conn() *Conn {
	if a.torn && !a.world.IsServer() {
		return nil
	}
	return a.conn
}

// Owned reports, on a client, whether this side owns the actor; on the server, whether any client does.
func (a *Actor) Owned() bool {
	if a.world.IsServer() {
		return a.conn != nil
	}
	return a.owned
}

// Alive reports whether the actor lives: on a client, whether this copy of it does.
func (a *Actor) Alive() bool { return !a.dead }

// noActor is how errors name an actor that no world has made.
const noActor = "a nil *Actor or an Actor{}: take the one that Spawn returned or that the constructor was given"

// made reports whether a world made the actor.
func (a *Actor) made() bool { return a != nil && a.world != nil }

// openingOn returns the actor's opening on c, nil if it is not open there.
func (a *Actor) openingOn(c *Conn) *opening {
	if c == nil {
		return nil
	}
	if c.server {
		return c.shown.openings[a]
	}
	for _, o := range a.openings { // there is at most one, perhaps of another connection
		if o.conn == c {
			return o
		}
	}
	return nil
}

// parts yields the objects of the actor, its own first.
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

// awaitsAcks reports whether OnOpenAcked was called for the actor's class or for that of a component. It also holds before the objects are made.
func (a *Actor) awaitsAcks() bool {
	awaits := func(p part) bool { return p.binding != nil && p.binding.onOpenAcked != nil }
	return awaits(a.own) || slices.ContainsFunc(a.components, awaits)
}

// part returns the object of the actor's class, or of one of its components.
func (a *Actor) part(c *Class) part {
	switch {
	case c == a.class:
		return a.own
	case c.actor == a.class && c.slot < len(a.components):
		return a.components[c.slot]
	}
	return part{}
}

// makeObjects calls the constructors that are bound to the actor's class and its components.
func (a *Actor) makeObjects() {
	a.bindComponents()
	if a.own.binding != nil {
		a.own.object = a.own.binding.construct(a)
		if !a.dead && a.own.object != nil { // the constructor may have ended it
			a.own.binding.actors.Add(a, &a.seats.class)
		}
	}
	for slot := range a.components {
		if p := &a.components[slot]; p.binding != nil {
			p.object = p.binding.construct(a)
		}
	}
}

// bindComponents finds the bindings of the components. It comes before the constructors, because one may call a component's method.
func (a *Actor) bindComponents() {
	if len(a.class.components) == 0 {
		return
	}
	a.components = make([]part, len(a.class.components))
	for slot, class := range a.class.components {
		a.components[slot].binding = a.world.bindings[class]
	}
}

// makeReplicas makes the replicas of the states that the actor's objects keep.
func (a *Actor) makeReplicas() {
	if len(a.class.states) == 0 {
		return
	}
	a.states.replicas = make([]replica, len(a.class.states))
	for p := range a.parts {
		p.binding.replicate(p.object, a.states.replicas)
	}
	if b := a.own.binding; b != nil && !b.looked {
		b.looked = true
		a.tellUnkept()
	}
}

// tellUnkept warns of states that nothing keeps here although their class is bound: nobody else would notice a forgotten Replicate.
func (a *Actor) tellUnkept() {
	var states []string
	for i, d := range a.class.states {
		if a.states.replicas[i] == nil && a.part(d.class).binding != nil {
			states = append(states, d.String())
		}
	}
	if len(states) > 0 {
		a.world.log.Warn("no Replicate or ReplicateList says where states are kept here", "class", a.class.name, "states", strings.Join(states, ", "))
	}
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

// Channel returns the actor's channel on c; the zero Channel when the actor is not open there, as one that is AlwaysRelevant is not yet in
// [Config].OnConnect.
func (a *Actor) Channel(c *Conn) Channel {
	if o := a.openingOn(c); o != nil {
		return Channel{c, o.channel}
	}
	return Channel{}
}
