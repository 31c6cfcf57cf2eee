package rpc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/roster"
	"github.com/quivernet/quiver/internal/tasks"
)

// An Actor is an object that both sides know. The server spawns it, and every client for which it
// is open has a copy. Its methods must be called on the world's goroutine.
type Actor struct {
	_ codec.Never `codec:"an actor cannot be encoded: send a number by which both ends know it"`

	world *World
	class *Class
	ref   Ref    // 0 on a client if the actor was placed there and the server hasn't opened it yet
	name  string // of a placed actor, which both ends know; "" otherwise
	seats seats  // the actor's positions in the lists that contain it

	// The game's objects, made by the constructors of the bindings.
	own        part   // for the actor's class; its binding is nil if the class isn't bound here
	components []part // by slot; nil until makeObjects

	// Ownership, and the connections that the actor is open for. On a server, conn is the
	// connection at the end of the chain of owners, or nil if there is none. On a client it's
	// the connection to the server.
	conn     *Conn
	owned    bool       // client: this client owns the actor
	owner    *Actor     // server: the owning actor; nil if a connection or the server owns it
	children actors     // server: the actors that this one owns
	openings []*opening // one per connection that has the actor; at most one on a client
	dead     bool       // the actor, or on a client its copy, has ended
	tornOff  bool       // TearOff was called, on the server

	// What the server sends, and to which clients. Clients use neither relevancy nor throttle.
	dormancy  dormancy
	relevancy actorRelevancy
	states    actorStates
	throttle  budget.Throttle[*method] // limits unreliable Multicasts (Config.MaxRPCPerNetUpdate)
}

// seats are an actor's places in four lists: the world's actors, the actors of its class, the
// actors of its owner, and the AlwaysRelevant actors.
type seats struct{ world, class, owner, always roster.Seat }

// actors is a list of actors in the order in which they were added.
type actors struct{ roster.List[Actor] }

// all yields the actors that are in the list at the time of the call, except for any that end
// before their turn comes.
func (l *actors) all(yield func(*Actor) bool) {
	l.All(func(a *Actor) bool { return a.dead || yield(a) })
}

// An actorTable lists the actors that are alive in a world. Only the world's goroutine may
// use it, except for alive.
type actorTable struct {
	all    actors       // in the order in which they were spawned or opened
	always actors       // AlwaysRelevant actors, unless they're torn off
	alive  atomic.Int64 // length of all; safe for concurrent use

	// Placed actors by name. On a server, placed also includes the actors in gonePlaced, because a
	// name can't be used again.
	//
	// A client with several connections may have an actor of the same name on each connection. The
	// oldest of these actors is in placed, and the others are in namesakes, oldest first.
	placed    map[string]*Actor
	namesakes map[string][]*Actor

	// Server only.
	byRef   map[Ref]*Actor
	lastRef Ref // of the newest actor

	// Server only: stand-ins for placed actors that were destroyed or torn off. Clients that join
	// later must be told that these actors are gone.
	gonePlaced []*Actor
}

// assignRef gives an actor the next Ref.
func (t *actorTable) assignRef(a *Actor) {
	t.lastRef++
	a.ref = t.lastRef
	t.byRef[a.ref] = a
}

// add adds an actor that has just been spawned, placed or opened.
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
	t.removeAlways(a)
	t.removeName(a)
	if t.byRef[a.ref] == a {
		delete(t.byRef, a.ref)
	}
}

// addAlways adds an AlwaysRelevant actor to always.
func (t *actorTable) addAlways(a *Actor) { t.always.Add(a, &a.seats.always) }

// removeAlways removes an actor from always, if it's there.
func (t *actorTable) removeAlways(a *Actor) { t.always.Remove(&a.seats.always) }

// inAlways reports whether an actor is in always.
func (t *actorTable) inAlways(a *Actor) bool { return a.seats.always != roster.Seat{} }

// removeName removes an actor that has ended from placed or namesakes. If it was in placed, the
// oldest remaining actor of that name takes its place.
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

// A Ref is the network ID of an actor. Arguments, states and lists use it to refer to the actor
// on both sides. The zero Ref means no actor. The server's world never uses a Ref again.
// UE (Unreal Engine's counterpart): FNetworkGUID.
//
// [World.Actor] and [Conn.Actor] return the actor, or nil if it has ended or is not open here.
type Ref uint64

func (r Ref) String() string {
	if r == 0 {
		return "no actor"
	}
	return fmt.Sprintf("actor %d", uint64(r))
}

// Actor returns the actor that ref names, or nil if it has ended or is not open here.
//
// On a server, if a client has sent the Ref in Raw bytes or in a type that decodes itself, use
// [Conn.Actor] instead, because the client may name actors that it was never shown.
//
// A client of several servers should also use [Conn.Actor], because the servers number their actors
// independently and World.Actor just returns the first match.
func (w *World) Actor(ref Ref) *Actor {
	if w.IsServer() {
		return w.actors.byRef[ref]
	}
	for _, c := range w.announced {
		if a := c.copies.byRef[ref]; a != nil {
			return a
		}
	}
	return nil
}

// Actor returns the actor that ref names, or nil if the client on c doesn't have it. The actor may
// be open for c, or the client may have a copy whose channel is closed, such as a dormant or
// placed one. [Actor.Channel] tells the two apart. Actor must be called on the world's goroutine.
//
// In [Config].OnConnect, AlwaysRelevant actors are not open yet.
func (c *Conn) Actor(ref Ref) *Actor {
	if !c.server {
		return c.copies.byRef[ref]
	}
	if a := c.world.actors.byRef[ref]; a != nil && (a.openingOn(c) != nil || c.shown.hasDetached(a)) {
		return a
	}
	return nil
}

// World returns the actor's world.
func (a *Actor) World() *World { return a.world }

// Class returns the actor's class.
func (a *Actor) Class() *Class { return a.class }

// Conn returns the actor's connection. On a server that is the connection at the end of the
// chain of owners, or nil if there is none. On a client it is the connection to the server,
// or nil if the copy is torn off.
func (a *Actor) Conn() *Conn {
	if a.tornOff && !a.world.IsServer() {
		return nil
	}
	return a.conn
}

// Owned reports whether a client owns the actor: this client on a client, any client on a
// server.
func (a *Actor) Owned() bool {
	if a.world.IsServer() {
		return a.conn != nil
	}
	return a.owned
}

// Alive reports whether the actor, or on a client its copy, has not ended yet.
func (a *Actor) Alive() bool { return !a.dead }

// end ends the actor on this side, server or client, and runs OnClose. It is a no-op if the actor
// has already ended.
func (a *Actor) end(reason CloseReason) {
	if a.dead {
		return
	}
	w := a.world
	a.dead = true
	a.owned = false
	w.actors.remove(a)
	if a.conn != nil {
		a.conn.copies.remove(a)
	}
	w.requests.endOf(a, reason)
	if a.own.binding != nil {
		a.own.binding.actors.Remove(&a.seats.class)
	}
	for p := range a.parts {
		if p.binding.onClose != nil {
			w.game.During(tasks.Doing{What: "OnClose of ", Of: p.binding.class}, func() {
				p.binding.onClose(p.object, reason)
			})
		}
	}
}

// updateVisible recomputes which fields each client may see. It is called when the actor's owner
// or a condition has changed.
func (a *Actor) updateVisible() {
	// The last encoded states may be out of date, because of an UpdateRate or because Run doesn't
	// compare states in every step. Clients must not see what the game has cleared since.
	a.compareAll()
	for _, o := range a.openings {
		o.updateVisible()
	}
}

// noActor describes, in error texts, an actor that didn't come from a world.
const noActor = "a nil *Actor or an Actor{}: use the one that Spawn returned or that the constructor received"

// valid reports whether the actor came from a world. A nil *Actor or an Actor{} didn't.
func (a *Actor) valid() bool { return a != nil && a.world != nil }

// openingOn returns the actor's opening on c, or nil if it isn't open there.
func (a *Actor) openingOn(c *Conn) *opening {
	if c == nil {
		return nil
	}
	if c.server {
		return c.shown.openings[a]
	}
	// On a client there's at most one opening, which may be on a connection other than c.
	for _, o := range a.openings {
		if o.conn == c {
			return o
		}
	}
	return nil
}

// parts yields those of the actor's objects whose classes are bound here, beginning with its own.
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

// awaitsAcks reports whether the actor's class, or the class of one of its components, has an
// OnOpenAcked function. The objects don't have to exist yet.
func (a *Actor) awaitsAcks() bool {
	awaits := func(p part) bool { return p.binding != nil && p.binding.onOpenAcked != nil }
	return awaits(a.own) || slices.ContainsFunc(a.components, awaits)
}

// partOf returns the actor's object of class c, which may be the actor's own class or the class
// of a component. For any other class it returns the zero part.
func (a *Actor) partOf(c *Class) part {
	switch {
	case c == a.class:
		return a.own
	case c.actor == a.class && c.slot < len(a.components):
		return a.components[c.slot]
	}
	return part{}
}

// makeObjects calls the constructors that are bound to the actor's class and to the classes
// of its components.
func (a *Actor) makeObjects() {
	a.bindComponents()
	if a.own.binding != nil {
		a.own.object = a.own.binding.construct(a)
		if !a.dead && a.own.object != nil {
			// The constructor hasn't destroyed the actor, so list it among those of its class.
			a.own.binding.actors.Add(a, &a.seats.class)
		}
	}
	for slot := range a.components {
		if p := &a.components[slot]; p.binding != nil {
			p.object = p.binding.construct(a)
		}
	}
}

// bindComponents looks up the bindings of all components. It must run before the constructors,
// because any constructor may already call a component's method.
func (a *Actor) bindComponents() {
	if len(a.class.components) == 0 {
		return
	}
	a.components = make([]part, len(a.class.components))
	for slot, class := range a.class.components {
		a.components[slot].binding = a.world.bindings[class]
	}
}

// makeReplicas makes the replicas of the states that are bound here. For the first actor of a
// class, it also warns about states that aren't bound.
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

// warnUnbound logs a warning about states that have no Replicate here, although their class is
// bound. Otherwise a forgotten Replicate would be hard to notice.
func (a *Actor) warnUnbound() {
	var states []string
	for i, d := range a.class.states {
		if a.states.replicas[i] == nil && a.partOf(d.class).binding != nil {
			states = append(states, d.String())
		}
	}
	if len(states) > 0 {
		a.world.log.Warn("states are not replicated here: call Replicate or ReplicateList for them",
			"class", a.class.name, "states", strings.Join(states, ", "))
	}
}

// Ref returns the network ID by which all sides know the actor.
func (a *Actor) Ref() Ref {
	if a == nil {
		return 0
	}
	return a.ref
}

// String returns the name of the actor's class followed by its Ref.
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

// byRef orders actors by their Refs.
func byRef(a, b *Actor) int { return cmp.Compare(a.ref, b.ref) }
