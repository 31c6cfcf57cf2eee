package rpc

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/quivernet/quiver/internal/tasks"
)

// A Binding binds a class to the type T of its objects in one world.
type Binding[T any] struct {
	untyped *binding
	world   *World
}

// A binding is a Binding without the type parameter.
type binding struct {
	class     *Class
	construct func(*Actor) any // calls the game's constructor
	handlers  []handler        // by method id; nil until the method's first On or Check
	states    []replicaMaker   // by state id; nil if the state isn't replicated here
	warned    bool             // we've warned about states without a Replicate
	used      bool             // the constructor has been called
	actors    actors           // actors of the class that have an object

	// Hooks, each of which is nil unless the game has set it.
	at          func(object any) (x, y, z float32)
	relevant    func(object any, viewer *Conn) bool
	onClose     func(object any, why CloseReason)
	onOwner     func(object any)
	onTearOff   func(object any)
	onOpenAcked func(object any, c *Conn)
}

// handles reports whether there is a handler for calls of m. b may be nil.
func (b *binding) handles(m *method) bool {
	return b != nil && b.handlers[m.id] != nil && b.handlers[m.id].bound()
}

// hasAt reports whether objects of the binding have a position. b may be nil.
func (b *binding) hasAt() bool { return b != nil && b.at != nil }

// replicate makes a replica of each state that the object keeps, and stores it in into, by
// state id.
func (b *binding) replicate(object any, into []replica) {
	for i, maker := range b.states {
		if maker != nil {
			into[i] = maker.newReplica(object)
		}
	}
}

// Bind binds class in world. ctor makes the object of each actor. Bind panics if the class is
// already bound or has actors, or if the first connection has already fixed the world's classes. It
// must be called on the world's goroutine.
//
// On a client, ctor may call [Actor.Owned] and [Actor.Ref]. The states in the open message
// are read into the object right after ctor, before any call. Calls that ctor makes in this world
// run on that object in the next Dispatch.
//
// A client's ctor may also call the server. If the actor's close has arrived along with its open,
// such a call fails as it would after the close, with [ErrDormant] if the actor is dormant or was
// placed, and with [ErrClosed] otherwise.
func Bind[T any](world *World, class *Class, ctor func(*Actor) T) *Binding[T] {
	switch {
	case class == nil:
		panic("rpc: Bind of a nil *Class: use the result of NewClass")
	case ctor == nil:
		panic(fmt.Sprintf("rpc: Bind(%s): nil constructor", class.name))
	case world == nil:
		panic(fmt.Sprintf("rpc: Bind(%s) in a nil *World", class.name))
	}
	class.markUsed()
	b := &binding{
		class:    class,
		handlers: make([]handler, len(class.root().methods)),
		states:   make([]replicaMaker, len(class.root().states)),
	}
	b.construct = func(a *Actor) (object any) {
		b.used = true
		world.game.During(tasks.Doing{What: "the constructor of ", Of: class}, func() { object = ctor(a) })
		return object
	}
	world.bind(b)
	return &Binding[T]{b, world}
}

// On makes fn the handler of h. It panics if fn is nil, or if h belongs to another class or already
// has a handler.
//
// fn runs on the world's goroutine, in Dispatch, one call at a time. It may keep arg unless that
// is a [Raw], but not the *Call. While fn runs, no other function of the game does, so a handler
// that waits for something holds up the world: see [Request.Go] and [World.Post].
func On[T, A any](b *Binding[T], h Handle[A], fn func(object T, call *Call, arg A)) {
	m := h.declared()
	e := endpointOf[T, A](b, m)
	mustHook("On", m, fn == nil, e.run != nil)
	e.run = fn
}

// Check makes fn decide, before the handler of h runs, whether the caller may make this call
// now. h is a *[ServerRPC], or a *[Request] to the server.
//
// fn runs on the world's goroutine, after the argument's Validate. An error closes the caller's
// connection with [ValidationFailed] and a reason that contains the names of the actor's class and
// method and the error's text. If the call of an honest client may simply come too late, refuse it
// in the handler instead. Calls that the server itself makes aren't checked.
//
// The caller saw other actors as they were about a round trip ago, and how long ago differs from
// actor to actor. A check of a distance must therefore use the positions that the caller saw, or it
// closes the connections of honest players.
func Check[T, A any](b *Binding[T], h checkable[A], fn func(object T, call *Call, arg A) error) {
	m := h.declared()
	e := endpointOf[T, A](b, m)
	mustHook("Check", m, fn == nil, e.check != nil)
	if m.kind != serverRPC {
		panic(fmt.Sprintf("rpc: Check(%v) requires a Server RPC or a request to the server", m))
	}
	e.check = fn
}

// A checkable is a handle that [Check] accepts: a *[ServerRPC], or a *[Request] declared by
// [ServerRequest].
type checkable[A any] interface {
	takes(A)
	declared() *method
}

// Of returns the object of an actor. ok is false if a is nil, has ended, or is not of the
// binding's class and world. UE: Cast.
func (b *Binding[T]) Of(a *Actor) (object T, ok bool) {
	if !a.valid() || a.dead {
		return object, false
	}
	if p := a.partOf(b.untyped.class); p.binding == b.untyped && p.object != nil {
		return p.object.(T), true
	}
	return object, false
}

// At returns the object of the actor with that ref. ok is false if [World.Actor] returns nil
// or Of returns false.
func (b *Binding[T]) At(ref Ref) (object T, ok bool) { return b.Of(b.world.Actor(ref)) }

// candidates returns a list that includes all actors with an object of b. For a component of a
// class that isn't bound here, it returns all actors of the world.
func (b *Binding[T]) candidates() *actors {
	if own := b.world.bindings[b.untyped.class.root()]; own != nil {
		return &own.actors
	}
	return &b.world.actors.all
}

// All yields the actors of the class that are alive here, with their objects, in the order in
// which they were spawned or opened here. As in [World.Actors], actors may be added and may
// end during the iteration.
func (b *Binding[T]) All() iter.Seq2[*Actor, T] {
	return func(yield func(*Actor, T) bool) {
		b.candidates().all(func(a *Actor) bool {
			object, ok := b.Of(a)
			return !ok || yield(a, object)
		})
	}
}

// At makes fn return the position of objects of b. An actor is then open for every connection
// whose view is nearer than the class's [CullDistance]. A connection sees from the point set by
// [Conn.SetView]. An actor closes for a connection, with reason [Relevancy], 5 s after the
// connection last saw it. At panics if fn is nil or b already has an At. UE: GetActorLocation, as
// AActor::IsNetRelevantFor calls it.
//
// The rules apply in Unreal's order. An actor spawned with [AlwaysRelevant] is open for
// everybody. Any actor is relevant to its owner, and to a connection whose view it is. Next
// come [RelevantAsOwner] and [OnlyRelevantToOwner], and distance is last. Actors that are
// attached or hidden are up to the game (see [Relevant]).
//
// fn is called on the world's goroutine when an actor is spawned, and then ten times a second
// for each actor, spread over the Flushes. Flush surveys the surroundings of each connection
// at the same rate, so an actor that comes near opens within 0.3 s. The nearest actors open
// first, at most 1,000 in a Flush.
//
// Each tick examines only a fraction of the actors. Its cost depends on that fraction and on the
// number of actors near each connection, but not on the number of pairs. At 30 Hz, 10,000 actors
// that don't move cost 0.06 ms, and 100 connections, each with 200 actors nearby, cost another
// 0.3 ms.
//
// An actor whose position is not finite has no position. If a client has no free channel for
// an actor, this is logged, and the server tries again every second.
//
// OpenTo and CloseTo still work. An actor opened by OpenTo stays open until it has been out of
// sight for 5 s, and an actor closed by CloseTo opens again if it is near. If the path can't take
// all updates, the updates of distant actors wait longer (see [UpdatePriority]).
func At[T any](b *Binding[T], fn func(object T) (x, y, z float32)) {
	u := b.untyped
	mustHook("At", u.class, fn == nil, u.at != nil)
	mustBeUnused("At", u.class, u)
	u.at = func(object any) (x, y, z float32) { return fn(object.(T)) }
}

// Relevant makes fn decide, in place of distance, which connections actors of b are open for.
// Relevant panics if fn is nil, or if b already has a Relevant or objects. UE: an override of
// AActor::IsNetRelevantFor, after the rules described at [At].
//
// As with [At], the owner, the view and the options of Spawn take precedence, so fn can't
// keep an actor from its owner, or from a connection whose view it is. An actor closes 5 s
// after fn last returned true. [Conn.View] returns the point that viewer sees from.
//
// fn is called on the world's goroutine in Flush, once a second for each pair of an actor and a
// connection. The calls are spread over the Flushes, with at most 20,000 in each. At 30 Hz, it
// takes 1.7 s to ask fn about 10,000 actors and 100 connections, so fn must be fast. With
// Relevant, an At of b is only used for views.
func Relevant[T any](b *Binding[T], fn func(object T, viewer *Conn) bool) {
	u := b.untyped
	mustHook("Relevant", u.class, fn == nil, u.relevant != nil)
	mustBeUnused("Relevant", u.class, u)
	u.relevant = func(object any, viewer *Conn) bool { return fn(object.(T), viewer) }
}

// mustHook panics if a hook's function is missing, or if another one is already set. by is the
// function that sets hooks of this kind, and to is the class, method or state that the hook is
// for.
func mustHook(by string, to fmt.Stringer, missing, bound bool) {
	switch {
	case missing:
		panic(fmt.Sprintf("rpc: %s(%v): nil function", by, to))
	case bound:
		panic(fmt.Sprintf("rpc: %s(%v): function already set: call %s for it only once, with a function that does all", by, to, by))
	}
}

// mustBeUnused panics if b already has objects, for which a function that by sets would never be
// called.
func mustBeUnused(by string, of fmt.Stringer, b *binding) {
	if b.used {
		panic(fmt.Sprintf("rpc: %s(%v): class %s already has objects here, to which it would not apply: call %s before the first Spawn, Place or Dial",
			by, of, b.class.name, by))
	}
}

// A handler runs the calls of one method. It is an *endpoint without its type parameters.
type handler interface {
	// bound reports whether On or OnRequest has set a function to run. A handler may have just a
	// Check.
	bound() bool
	// runRemote decodes, validates and checks the argument of a call from the peer, and then runs
	// the call. If the argument is refused, it returns a *validationError instead. Any other
	// error comes from decoding. Like runLocal, it requires bound.
	runRemote(object any, call *Call, payload []byte) error
	// runLocal runs a call that was made in this world, where its argument has been validated
	// already.
	runLocal(object any, call *Call, arg any)
}

// An endpoint runs the calls of one method for one binding. Calls run one at a time, on the
// world's goroutine, so all arguments can be decoded into the same arg.
type endpoint[T, A any] struct {
	m     *method
	run   func(T, *Call, A)       // set by On or OnRequest
	check func(T, *Call, A) error // set by Check; nil if there is none
	arg   A
}

// endpointOf returns b's endpoint for m, which is made by the first call. It panics if m
// belongs to another class.
func endpointOf[T, A any](b *Binding[T], m *method) *endpoint[T, A] {
	u := b.untyped
	if m.class != u.class {
		panic(fmt.Sprintf("rpc: %v cannot be bound to %v as class %s: it belongs to class %s",
			m, reflect.TypeFor[T](), u.class.name, m.class.name))
	}
	if u.handlers[m.id] == nil {
		u.handlers[m.id] = &endpoint[T, A]{m: m}
	}
	return u.handlers[m.id].(*endpoint[T, A])
}

// bound implements handler.
func (e *endpoint[T, A]) bound() bool { return e.run != nil }

// runRemote implements handler.
func (e *endpoint[T, A]) runRemote(object any, call *Call, payload []byte) error {
	defer e.clearArg()
	if err := e.m.codec.Decode(payload, &e.arg); err != nil {
		return e.m.undecodable(len(payload), err)
	}
	// The call may have to wait for actors that its argument names.
	if e.m.refers && call.Conn.clearOrPostpone(call, e.m, &e.arg, payload) {
		return nil
	}
	if err := e.m.codec.Validate(&e.arg); err != nil {
		return &validationError{method: e.m, cause: err}
	}
	if e.check != nil {
		doing := &call.Actor.world.game.Doing
		*doing = tasks.Doing{What: "the check of ", Of: e.m}
		if err := e.check(object.(T), call, e.arg); err != nil {
			return &validationError{method: e.m, cause: err}
		}
		*doing = tasks.Doing{Of: e.m}
	}
	e.run(object.(T), call, e.arg)
	return nil
}

// clearArg prepares arg for the next call, and lets go of the memory that it refers to.
func (e *endpoint[T, A]) clearArg() {
	var zero A
	e.arg = zero
}

// runLocal implements handler.
func (e *endpoint[T, A]) runLocal(object any, call *Call, arg any) {
	e.run(object.(T), call, arg.(A))
}
