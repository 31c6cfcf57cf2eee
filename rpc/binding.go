package rpc

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/quivernet/quiver/internal/tasks"
)

// Binding ties a class to the Go type T that behaves for it in one world.
type Binding[T any] struct {
	untyped *binding
	world   *World
}

// binding is what a world knows of a Binding.
type binding struct {
	class     *Class
	construct func(*Actor) any
	handlers  []handler     // by method id; zero = nothing is bound
	endpoints []any         // by method id: *endpoint[T, A], made by the first On or Check
	states    []stateKeeper // by state id; nil = not replicated here
	at        func(object any) (x, y, z float32)
	relevant  func(object any, viewer *Conn) bool
	actors    actors // of the class, with their objects
	onClose   func(object any, why CloseReason)
	onOwner   func(object any)
	onTearOff func(object any)
}

// replicate makes the replicas of an object.
func (b *binding) replicate(object any, into []replica) {
	for i, keeper := range b.states {
		if keeper != nil {
			into[i] = keeper.of(object)
		}
	}
}

// handler runs the calls of one method.
type handler struct {
	// remote decodes payload, validates, checks and runs. The error is a *decodeError or a *validationError.
	remote func(object any, call *Call, payload []byte) error
	// local runs with the value itself.
	local func(object any, call *Call, arg any)
}

// Bind makes world behave for actors of class: ctor makes the object of each. On a client [Actor.Owned] and [Actor.Ref] are known then,
// and the states that came with the open are read into the object right after, before any call. It panics when the class is bound
// twice or the world does not list it. It belongs to the world's goroutine.
func Bind[T any](world *World, class *Class, ctor func(*Actor) T) *Binding[T] {
	switch {
	case class == nil:
		panic("rpc: Bind of a nil *Class: take what NewClass returned")
	case ctor == nil:
		panic(fmt.Sprintf("rpc: Bind(%s): no constructor", class.name))
	}
	class.close()
	b := &binding{
		class: class,
		construct: func(a *Actor) (object any) {
			world.game.During(tasks.Doing{What: "the constructor of ", Of: class}, func() { object = ctor(a) })
			return object
		},
		handlers:  make([]handler, len(class.root().methods)),
		endpoints: make([]any, len(class.root().methods)),
		states:    make([]stateKeeper, len(class.root().states)),
	}
	world.bind(b)
	return &Binding[T]{b, world}
}

// On makes fn run the calls of h. It panics when h is of another class or has a handler already.
func On[T, A any](b *Binding[T], h Handle[A], fn func(object T, call *Call, arg A)) {
	m := h.declared()
	e := endpointOf[T, A](b, m)
	switch {
	case fn == nil:
		panic(fmt.Sprintf("rpc: On(%v): no handler", m))
	case e.run != nil:
		panic(fmt.Sprintf("rpc: On(%v): it has a handler already", m))
	}
	e.run = fn
	b.untyped.handlers[m.id] = handler{remote: e.remote, local: e.local}
}

// Check makes fn decide whether the caller may do this now, before the handler of h, a *[ServerRPC] or a *[Request] to the server, runs. Its error closes the
// connection of the caller with [ValidationFailed]: refuse a harmless race inside the handler instead. What the caller sees is a round
// trip old, and of other times for other actors: a check of a distance takes where they were then, or honest players are thrown out.
func Check[T, A any](b *Binding[T], h checked[A], fn func(object T, call *Call, arg A) error) {
	m := h.declared()
	e := endpointOf[T, A](b, m)
	switch {
	case fn == nil:
		panic(fmt.Sprintf("rpc: Check(%v): no check", m))
	case m.kind != serverRPC:
		panic(fmt.Sprintf("rpc: Check(%v): only a server trusts its callers less", m))
	case e.check != nil:
		panic(fmt.Sprintf("rpc: Check(%v): it has a check already", m))
	}
	e.check = fn
}

// Of returns the object of an actor; false when a is nil, has ended, or is not of the binding's class and world. UE: Cast.
func (b *Binding[T]) Of(a *Actor) (object T, ok bool) {
	if !a.made() || a.dead {
		return object, false
	}
	if p := a.part(b.untyped.class); p.binding == b.untyped && p.object != nil {
		return p.object.(T), true
	}
	return object, false
}

// At returns the object of the actor that ref names; false when [World.Actor] returns nil, or Of does not know it.
func (b *Binding[T]) At(ref Ref) (object T, ok bool) { return b.Of(b.world.Actor(ref)) }

// listed returns a roster of all actors that may have an object of b's.
func (b *Binding[T]) listed() *actors {
	if own := b.world.bindings[b.untyped.class.root()]; own != nil {
		return &own.actors
	}
	return &b.world.actors.all
}

// All returns the actors of the class that live here and their objects, in the order in which they were spawned, or opened here. As
// with [World.Actors] they may come and go meanwhile.
func (b *Binding[T]) All() iter.Seq2[*Actor, T] {
	return func(yield func(*Actor, T) bool) {
		b.listed().all(func(a *Actor) bool {
			object, ok := b.Of(a)
			return !ok || yield(a, object)
		})
	}
}

// At says where objects of b stand. Their actors are then open for the connections that see them, those whose view is nearer than
// the class's [CullDistance], and close 5 s after they were last seen, with reason [Relevancy]; [Conn.SetView] says from where a
// connection sees. UE: GetActorLocation, as AActor::IsNetRelevantFor asks it.
//
// In Unreal's order: an actor that was spawned with [AlwaysRelevant] is open for everybody; it is relevant to its owner, and to
// a connection whose view it is; [RelevantAsOwner] and [OnlyRelevantToOwner] come next, and the distance last. What is attached or
// hidden is the game's matter: see [Relevant].
//
// fn is asked on the world's goroutine: when an actor is spawned, and at Flush ten times a second for each actor, some of them at each
// Flush; as often each connection's surroundings are looked at. What comes near is so opened 0.3 s later at the latest, the nearest
// first, and at most 1,000 at a Flush. A tick pays for a part of the actors and for what is near, not for all pairs: at 30 Hz 10,000
// actors that stand still take 0.06 ms, and 100 connections near to 200 of them each 0.3 ms. A position that is not finite is nowhere.
// What can not be opened, because the client has no channel left, is told in the log and tried again each second.
//
// OpenTo and CloseTo still work: what OpenTo opened stays until it was out of sight for 5 s, and what CloseTo closed opens again
// if it is near. Where the path does not take all updates, those of what is far wait longer: see [UpdatePriority].
//
// At panics when fn is nil, or b has one.
func At[T any](b *Binding[T], fn func(object T) (x, y, z float32)) {
	u := b.untyped
	switch {
	case fn == nil:
		panic(fmt.Sprintf("rpc: At for class %s: no function", u.class.name))
	case u.at != nil:
		panic(fmt.Sprintf("rpc: At for class %s: it has a function already", u.class.name))
	}
	u.at = func(object any) (x, y, z float32) { return fn(object.(T)) }
}

// Relevant makes fn decide for which connections actors of b are open, instead of distance. Owner, view and the options of Spawn come
// before it, as for [At]: fn can not refuse an actor to its owner, nor to a connection whose view it is. An actor closes 5 s after
// fn last said yes. [Conn.View] says from where viewer sees. UE: overriding AActor::IsNetRelevantFor, but for what comes before.
//
// fn is asked on the world's goroutine at Flush, for each actor and each connection once a second, some pairs at each Flush, and at
// most 20,000 of them: at 30 Hz, 10,000 actors and 100 connections take 1.7 s a round. Let it be quick. At beside it only serves as
// view. It panics when fn is nil, or b has one.
func Relevant[T any](b *Binding[T], fn func(object T, viewer *Conn) bool) {
	u := b.untyped
	switch {
	case fn == nil:
		panic(fmt.Sprintf("rpc: Relevant for class %s: no function", u.class.name))
	case u.relevant != nil:
		panic(fmt.Sprintf("rpc: Relevant for class %s: it has a function already", u.class.name))
	}
	u.relevant = func(object any, viewer *Conn) bool { return fn(object.(T), viewer) }
}

// checked is what a Check may be of: a *[ServerRPC], or a *[Request] that [ServerRequest] declared.
type checked[A any] interface {
	takes(A)
	declared() *method
}

// endpoint runs one method for one binding. Calls run one at a time on the world's goroutine, so one argument,
// decoded in place, serves them all.
type endpoint[T, A any] struct {
	m     *method
	run   func(T, *Call, A)
	check func(T, *Call, A) error
	arg   A
}

func endpointOf[T, A any](b *Binding[T], m *method) *endpoint[T, A] {
	u := b.untyped
	if m.class != u.class {
		panic(fmt.Sprintf("rpc: %v can not be bound to %v as class %s: it belongs to class %s",
			m, reflect.TypeFor[T](), u.class.name, m.class.name))
	}
	if u.endpoints[m.id] == nil {
		u.endpoints[m.id] = &endpoint[T, A]{m: m}
	}
	return u.endpoints[m.id].(*endpoint[T, A])
}

func (e *endpoint[T, A]) remote(object any, call *Call, payload []byte) error {
	var zero A
	e.arg = zero
	if err := e.m.codec.Decode(payload, &e.arg); err != nil {
		return &decodeError{method: e.m, size: len(payload), cause: err}
	}
	if e.m.refers && call.Conn.resolve(call, e.m, &e.arg, payload) {
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
	e.arg = zero // what the handler did not keep may go
	return nil
}

func (e *endpoint[T, A]) local(object any, call *Call, arg any) {
	e.run(object.(T), call, arg.(A))
}

// decodeError says that the argument of a call is not what its method declares.
type decodeError struct {
	method *method
	size   int // bytes
	cause  error
}

func (e *decodeError) Error() string {
	return fmt.Sprintf("rpc: %v: argument of %d bytes: %v", e.method, e.size, e.cause)
}

func (e *decodeError) Unwrap() error { return e.cause }

// validationError says that an argument is not well formed, or that its caller may not do this now.
type validationError struct {
	method *method
	cause  error
}

func (e *validationError) Error() string {
	return fmt.Sprintf("rpc: %v refused: %v", e.method, e.cause)
}

func (e *validationError) Unwrap() error { return e.cause }
