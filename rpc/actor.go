package rpc

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/roster"
)

// Actor is an object that both sides know: the server spawns it, clients for which it is open have a copy. Its methods
// belong to the world's goroutine.
type Actor struct {
	_ codec.Never `codec:"an actor can not be encoded; send a number of your own by which both ends know it"`

	world *World
	class *Class
	ref   Ref    // 0: placed on a client, and not open yet
	name  string // by which both ends know a placed actor
	seats seats

	// The game's objects, as the bindings' constructors returned them.
	own        part   // of its class; its binding is nil where nothing is bound
	components []part // by slot; none while nothing is made

	conn     *Conn      // the client's at the end of the chain of owners, nil: none; on a client the connection to the server
	owned    bool       // client: this side owns it
	owner    *Actor     // server: the actor that owns it, nil: a connection or the server does
	children actors     // server: those that it owns
	openings []*opening // where it is open; on a client the one channel to the server
	dead     bool
	torn     bool // see TearOff

	dormancy  dormancy
	relevancy actorRelevancy
	states    actorStates
	throttle  budget.Throttle[*method] // server: of its multicasts
}

// seats are an actor's places: among all actors of the world, those of its class, those that its owner has, and those that are
// AlwaysRelevant.
type seats struct{ world, class, owner, always roster.Seat }

// actors lists actors in the order in which they came.
type actors struct{ roster.List[Actor] }

// all goes through the actors that are listed when it begins and still live when it comes to them.
func (l *actors) all(yield func(*Actor) bool) {
	l.All(func(a *Actor) bool { return a.dead || yield(a) })
}

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

// SpawnOption is an option of [World.Spawn].
type SpawnOption func(*Actor)

// AlwaysRelevant opens the actor for every connection, present and future. One that can not take it, having no channel left or a
// smaller MaxBunch, goes without, and the log says so: what a peer does or asks for fails no Spawn for the others.
func AlwaysRelevant() SpawnOption { return func(a *Actor) { a.relevancy.always = true } }

// OnlyRelevantToOwner keeps an actor from all but its owner, however near they are, also when its class has neither At nor
// Relevant. The last owner's copy closes 5 s after SetOwner. UE: bOnlyRelevantToOwner.
func OnlyRelevantToOwner() SpawnOption { return func(a *Actor) { a.relevancy.onlyOwner = true } }

// RelevantAsOwner makes an actor relevant to whom its owner is, as a weapon is to those who see the pawn that bears it: it counts as
// standing where the owner's view stands, see [Conn.SetView], with the cull distance of that actor, or is for all who see from
// somewhere when that one is AlwaysRelevant. Without an owner, and where the owner's view is a point or decided by [Relevant], nobody else has it. UE:
// bNetUseOwnerRelevancy.
func RelevantAsOwner() SpawnOption { return func(a *Actor) { a.relevancy.asOwner = true } }

// Spawn makes an actor of b's class, owned by owner or by the server itself (nil), lets set, which may be nil, fill in the object that
// b's constructor returned, and opens the actor for the connection that owns it: the open carries the states as set leaves them. It
// returns the object too. When a connection ends, the actors that it owns are destroyed after OnDisconnect, and all that they own in
// turn; [World.SetOwner] in OnDisconnect keeps what shall stay. UE: SpawnActorDeferred; only the controller and its pawn go there.
func Spawn[T any](b *Binding[T], owner Owner, set func(object T), options ...SpawnOption) (*Actor, T, error) {
	var object T
	a, err := b.world.spawn(b.untyped.class, owner, options, func(made any) {
		if object = made.(T); set != nil {
			set(object)
		}
	})
	return a, object, err
}

// mustFit refuses an AlwaysRelevant actor whose states fit in no open message.
func (a *Actor) mustFit() error {
	if !a.relevancy.always {
		return nil
	}
	_, err := a.openMessage(nil, a.world.config.maxBunch())
	return err
}

// openToOwner opens a new actor for the connection at the end of its chain of owners.
func (a *Actor) openToOwner() error {
	if a.conn == nil || a.conn.expected() {
		return nil
	}
	return a.OpenTo(a.conn)
}

// enterClass enters an actor that has its object among those of its class.
func (a *Actor) enterClass() {
	if !a.dead && a.own.object != nil {
		a.own.binding.actors.Add(a, &a.seats.class)
	}
}

// World returns the actor's world.
func (a *Actor) World() *World { return a.world }

// Class returns the actor's class.
func (a *Actor) Class() *Class { return a.class }

// Conn returns, on the server, the connection that owns the actor or nil; on a client the server's, nil for a copy that is torn off.
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

// Alive reports whether the actor has neither been destroyed nor closed.
func (a *Actor) Alive() bool { return !a.dead }

// noActor is what errors call a value for which made is false.
const noActor = "a nil *Actor or an Actor{}: take the one that Spawn returned or that the constructor was given"

// made reports whether a world made the actor.
func (a *Actor) made() bool { return a != nil && a.world != nil }

// openingOn returns how the actor is open at c, nil when it is not.
func (a *Actor) openingOn(c *Conn) *opening {
	if c == nil {
		return nil
	}
	if c.server {
		return c.shown.openings[a]
	}
	for _, o := range a.openings { // one at most, and not when another connection made the actor
		if o.conn == c {
			return o
		}
	}
	return nil
}

// parts goes through the objects of the actor, its own first.
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

// part returns the object of a class, the actor's or a component's.
func (a *Actor) part(c *Class) part {
	switch {
	case c == a.class:
		return a.own
	case c.actor == a.class && c.slot < len(a.components):
		return a.components[c.slot]
	}
	return part{}
}

// makeObjects makes the objects of the actor.
func (a *Actor) makeObjects() {
	if a.own.binding != nil {
		a.own.object = a.own.binding.construct(a)
		a.enterClass()
	}
	if len(a.class.components) == 0 {
		return
	}
	a.components = make([]part, len(a.class.components))
	for slot, class := range a.class.components {
		if b := a.world.bindings[class]; b != nil {
			a.components[slot] = part{b, b.construct(a)}
		}
	}
}

// makeReplicas makes the replicas of the actor's objects.
func (a *Actor) makeReplicas() {
	if len(a.class.states) == 0 {
		return
	}
	a.states.replicas = make([]replica, len(a.class.states))
	for p := range a.parts {
		p.binding.replicate(p.object, a.states.replicas)
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

// Channel returns the actor's channel on c; the zero Channel when the actor is not open there.
func (a *Actor) Channel(c *Conn) Channel {
	if o := a.openingOn(c); o != nil {
		return Channel{c, o.channel}
	}
	return Channel{}
}
