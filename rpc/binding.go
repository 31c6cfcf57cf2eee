package rpc

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/quivernet/quiver/internal/tasks"
)

// A Binding binds a class to the type T of the class's objects in one world.
type Binding[T any] struct {
	untyped *binding
	world   *World
}

// binding is a Binding without its type parameter.
type binding struct {
	class     *Class
	construct func(*Actor) any // calls the constructor
	handlers  []handler        // by method id: an *endpoint[T, A]; nil until the first On or Check
	states    []replicaMaker   // by state id; nil = not replicated here
	warned    bool             // the first actor has warned of states without a Replicate
	actors    actors           // the actors of the class that have an object

	// Hooks. Each is nil if the game has not set it.
	at          func(object any) (x, y, z float32)
	relevant    func(object any, viewer *Conn) bool
	onClose     func(object any, why CloseReason)
	onOwner     func(object any)
	onTearOff   func(object any)
	onOpenAcked func(object any, c *Conn)
}

// hasAt reports whether objects of the binding have a position. b may be nil.
func (b *binding) hasAt() bool { return b != nil && b.at != nil }

// replicate makes the replicas of the states that an object keeps. It stores them in
// into, by state id.
func (b *binding) replicate(object any, into []replica) {
	for i, maker := range b.states {
		if maker != nil {
			into[i] = maker.newReplica(object)
		}
	}
}

// handler runs the calls of one method. It is an *endpoint without its type parameters.
type handler interface {
	// bound reports whether On or OnRequest has set a function. An endpoint that has
	// only a Check runs nothing.
	bound() bool
	// remote decodes, validates and checks the argument of a call from the peer, and runs
	// the call. The error is a *validationError or a decoding error.
	remote(object any, call *Call, payload []byte) error
	// local runs a call that was made in this world.
	local(object any, call *Call, arg any)
}

// handles reports whether a handler runs the calls of m. b may be nil.
func (b *binding) handles(m *method) bool {
	return b != nil && b.handlers[m.id] != nil && b.handlers[m.id].bound()
}

// Bind binds class in world. ctor makes the object of each actor. Bind panics if the
// class is already bound, or if it is added after the first connection. Bind must be
// called on the world's goroutine.
//
// On a client, ctor may call [Actor.Owned] and [Actor.Ref]. The states of the open
// are read into the object right after ctor, before any call. Calls that ctor makes
// in this world run on that object in the next Dispatch.
//
// A client's ctor may also call the server. If the actor's close has arrived together with
// its open, such a call returns the error that it would return after the close. That is
// [ErrDormant] if the actor is dormant or was placed, and otherwise [ErrClosed].
func Bind[T any](world *World, class *Class, ctor func(*Actor) T) *Binding[T] {
	switch {
	case class == nil:
		panic("rpc: Bind of a nil *Class: take what NewClass returned")
	case ctor == nil:
		panic(fmt.Sprintf("rpc: Bind(%s): no constructor", class.name))
	case world == nil:
		panic(fmt.Sprintf("rpc: Bind(%s) in a nil *World", class.name))
	}
	class.markUsed()
	b := &binding{
		class: class,
		construct: func(a *Actor) (object any) {
			world.game.During(tasks.Doing{What: "the constructor of ", Of: class}, func() { object = ctor(a) })
			return object
		},
		handlers: make([]handler, len(class.root().methods)),
		states:   make([]replicaMaker, len(class.root().states)),
	}
	world.bind(b)
	return &Binding[T]{b, world}
}

// On makes fn the handler of h. It panics if h is of another class or already has a handler.
func On[T, A any](b *Binding[T], h Handle[A], fn func(object T, call *Call, arg A)) {
	m := h.declared()
	e := endpointOf[T, A](b, m)
	mustHook("On", m, fn == nil, e.run != nil)
	e.run = fn
}

// Check makes fn decide, before the handler of h runs, whether the caller may make this
// call now. h is a *[ServerRPC], or a *[Request] to the server.
//
// An error closes the caller's connection with [ValidationFailed]. If an honest
// client may ask too late, refuse in the handler instead.
//
// What the caller saw is a round trip old, and its age differs between actors. A
// check of a distance must use the positions of that time. Otherwise it closes
// connections of honest players.
func Check[T, A any](b *Binding[T], h checked[A], fn func(object T, call *Call, arg A) error) {
	m := h.declared()
	e := endpointOf[T, A](b, m)
	mustHook("Check", m, fn == nil, e.check != nil)
	if m.kind != serverRPC {
		panic(fmt.Sprintf("rpc: Check(%v): only a server trusts its callers less", m))
	}
	e.check = fn
}

// Of returns the object of an actor. ok is false if a is nil, has ended, or is not
// of the binding's class and world. UE: Cast.
func (b *Binding[T]) Of(a *Actor) (object T, ok bool) {
	if !a.valid() || a.dead {
		return object, false
	}
	if p := a.partOf(b.untyped.class); p.binding == b.untyped && p.object != nil {
		return p.object.(T), true
	}
	return object, false
}

// At returns the object of the actor with the given ref. ok is false if
// [World.Actor] returns nil or Of returns false.
func (b *Binding[T]) At(ref Ref) (object T, ok bool) { return b.Of(b.world.Actor(ref)) }

// listed returns a list that contains all actors that have an object of b. It may
// contain others.
func (b *Binding[T]) listed() *actors {
	if own := b.world.bindings[b.untyped.class.root()]; own != nil {
		return &own.actors
	}
	return &b.world.actors.all
}

// All yields the actors of the class that are alive here, with their objects. They
// come in the order in which they were spawned or opened here. As in [World.Actors],
// actors may be added and may end during the iteration.
func (b *Binding[T]) All() iter.Seq2[*Actor, T] {
	return func(yield func(*Actor, T) bool) {
		b.listed().all(func(a *Actor) bool {
			object, ok := b.Of(a)
			return !ok || yield(a, object)
		})
	}
}

// At makes fn return the position of objects of b. Their actors are then open for the
// connections whose view is nearer than the class's [CullDistance]. [Conn.SetView]
// sets the point from which a connection sees. An actor closes, with reason
// [Relevancy], 5 s after it was last seen. At panics if fn is nil or b already has an
// At. UE: GetActorLocation, as AActor::IsNetRelevantFor calls it.
//
// The rules apply in Unreal's order. An actor that was spawned with [AlwaysRelevant] is open
// for everybody. An actor is relevant to its owner, and to a connection whose view it is.
// Then come [RelevantAsOwner] and [OnlyRelevantToOwner], and the distance last. The game
// decides about actors that are attached or hidden: see [Relevant].
//
// fn is called on the world's goroutine when an actor is spawned, and then ten times a
// second for each actor, in Flush, spread over the Flushes. Flush surveys the surroundings
// of each connection at the same rate. An actor that comes near therefore opens at most
// 0.3 s later. The nearest actors open first, at most 1,000 in a Flush.
//
// The cost of a tick depends on a part of the actors and on the actors that are near,
// not on all pairs. At 30 Hz, 10,000 actors that stand still take 0.06 ms.
// 100 connections, each near to 200 of them, take another 0.3 ms.
//
// An actor whose position is not finite has no position. If a client has no free channel for
// an actor, the log says so, and the server tries again each second.
//
// OpenTo and CloseTo still work. An actor that OpenTo opened stays open until it has been out
// of sight for 5 s. An actor that CloseTo closed opens again if it is near. If the path can't
// take all updates, the updates of distant actors wait longer: see [UpdatePriority].
func At[T any](b *Binding[T], fn func(object T) (x, y, z float32)) {
	u := b.untyped
	mustHook("At", u.class, fn == nil, u.at != nil)
	u.at = func(object any) (x, y, z float32) { return fn(object.(T)) }
}

// Relevant makes fn decide, instead of the distance, for which connections actors of b are
// open. Relevant panics if fn is nil or b already has a Relevant. UE: an override of
// AActor::IsNetRelevantFor, after the rules described at [At].
//
// The owner, the view and the options of Spawn come first, as for [At]. fn can't refuse an
// actor to its owner, or to a connection whose view it is. An actor closes 5 s after fn last
// returned true. [Conn.View] returns the point from which viewer sees.
//
// fn is called on the world's goroutine in Flush, once a second for each pair of an
// actor and a connection. The calls are spread over the Flushes, at most 20,000 in
// one. At 30 Hz, a round for 10,000 actors and 100 connections takes 1.7 s. fn must
// be fast. With Relevant, an At of b is used only for views.
func Relevant[T any](b *Binding[T], fn func(object T, viewer *Conn) bool) {
	u := b.untyped
	mustHook("Relevant", u.class, fn == nil, u.relevant != nil)
	u.relevant = func(object any, viewer *Conn) bool { return fn(object.(T), viewer) }
}

// checked is a handle that [Check] accepts: a *[ServerRPC], or a *[Request] that
// [ServerRequest] declared.
type checked[A any] interface {
	takes(A)
	declared() *method
}

// mustHook panics if the function passed to by is missing, or if to is already bound to one.
// by sets a function of to, which is a class, a method or a state.
func mustHook(by string, to fmt.Stringer, missing, bound bool) {
	switch {
	case missing:
		panic(fmt.Sprintf("rpc: %s(%v): no function", by, to))
	case bound:
		panic(fmt.Sprintf("rpc: %s(%v): it has a function already", by, to))
	}
}

// endpoint runs the calls of one method for one binding. The calls run one at a time on the
// world's goroutine, so all arguments are decoded into the same arg.
type endpoint[T, A any] struct {
	m     *method
	run   func(T, *Call, A)       // nil = no On or OnRequest
	check func(T, *Call, A) error // nil = no Check
	arg   A
}

// endpointOf returns the endpoint of m in b. The first call makes it. endpointOf
// panics if m is of another class.
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

func (e *endpoint[T, A]) bound() bool { return e.run != nil }

func (e *endpoint[T, A]) remote(object any, call *Call, payload []byte) error {
	var zero A
	e.arg = zero
	if err := e.m.codec.Decode(payload, &e.arg); err != nil {
		return e.m.undecodable(len(payload), err)
	}
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
	e.arg = zero // for the garbage collector
	return nil
}

func (e *endpoint[T, A]) local(object any, call *Call, arg any) {
	e.run(object.(T), call, arg.(A))
}

// validationError wraps the error of a Validate or a Check.
type validationError struct {
	method *method
	cause  error
}

func (e *validationError) Error() string {
	return fmt.Sprintf("rpc: %v refused: %v", e.method, e.cause)
}

func (e *validationError) Unwrap() error { return e.cause }
