package rpc

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/quivernet/quiver/internal/tasks"
)

// Binding binds a class, in one world, to the type T of its objects.
type Binding[T any] struct {
	untyped *binding
	world   *World
}

// binding is a Binding without its type.
type binding struct {
	class       *Class
	construct   func(*Actor) any
	handlers    []handler     // by method id: an *endpoint[T, A], made by the first On or Check; nil before
	states      []stateKeeper // by state id; nil = not replicated here
	looked      bool          // the first actor has told which states nothing keeps
	at          func(object any) (x, y, z float32)
	relevant    func(object any, viewer *Conn) bool
	actors      actors // of the class, with their objects
	onClose     func(object any, why CloseReason)
	onOwner     func(object any)
	onTearOff   func(object any)
	onOpenAcked func(object any, c *Conn)
}

// hasAt reports whether objects of the binding have a position. b may be nil.
func (b *binding) hasAt() bool { return b != nil && b.at != nil }

// replicate makes the replicas of the states that an object keeps.
func (b *binding) replicate(object any, into []replica) {
	for i, keeper := range b.states {
		if keeper != nil {
			into[i] = keeper.of(object)
		}
	}
}

// handler runs the calls of one method. It is an *endpoint without its types.
type handler interface {
	// bound reports whether On or OnRequest has given it a function: with a Check alone it runs nothing.
	bound() bool
	// remote decodes, validates and checks the argument of a call from the peer, and runs it. The error is a *validationError, or that of
	// decoding.
	remote(object any, call *Call, payload []byte) error
	// local runs a call that was made in this world.
	local(object any, call *Call, arg any)
}

// handles reports whether a handler runs the calls of m. b may be nil.
func (b *binding) handles(m *method) bool {
	return b != nil && b.handlers[m.id] != nil && b.handlers[m.id].bound()
}

// Bind binds class in world: ctor makes the object of each of its actors. On a client ctor may ask [Actor.Owned] and [Actor.Ref]; the
// states that came with the open are read into the object right after it, before any call. What ctor calls in this world runs in the
// next Dispatch, on that object. What a client's ctor calls on the server leaves as from anywhere else; when the actor's close has come
// with its open, the call has the error that it would have after the close: [ErrDormant], of an actor that is dormant or was placed, else
// [ErrClosed]. Bind panics if the class is bound already, or is added after the first connection. It belongs to the
// world's goroutine.
func Bind[T any](world *World, class *Class, ctor func(*Actor) T) *Binding[T] {
	switch {
	case class == nil:
		panic("rpc: Bind of a nil *Class: take what NewClass returned")
	case ctor == nil:
		panic(fmt.Sprintf("rpc: Bind(%s): no constructor", class.name))
	case world == nil:
		panic(fmt.Sprintf("rpc: Bind(%s) in a nil *World", class.name))
	}
	class.close()
	b := &binding{
		class: class,
		construct: func(a *Actor) (object any) {
			world.game.During(tasks.Doing{What: "the constructor of ", Of: class}, func() { object = ctor(a) })
			return object
		},
		handlers: make([]handler, len(class.root().methods)),
		states:   make([]stateKeeper, len(class.root().states)),
	}
	world.bind(b)
	return &Binding[T]{b, world}
}

// On makes fn the handler of h. It panics when h is of another class or has a handler already.
func On[T, A any](b *Binding[T], h Handle[A], fn func(object T, call *Call, arg A)) {
	m := h.declared()
	e := endpointOf[T, A](b, m)
	mustHook("On", m, fn == nil, e.run != nil)
	e.run = fn
}

// Check makes fn decide, before the handler of h runs, whether the caller may do this now. h is a *[ServerRPC], or a *[Request] to the
// server. An error closes the caller's connection with [ValidationFailed], so refuse inside the handler what an honest client may ask too
// late. What the caller saw is a round trip old, and differs in age from actor to actor: a check of a distance must use where they were
// then, or it throws out honest players.
func Check[T, A any](b *Binding[T], h checked[A], fn func(object T, call *Call, arg A) error) {
	m := h.declared()
	e := endpointOf[T, A](b, m)
	mustHook("Check", m, fn == nil, e.check != nil)
	if m.kind != serverRPC {
		panic(fmt.Sprintf("rpc: Check(%v): only a server trusts its callers less", m))
	}
	e.check = fn
}

// Of returns the object of an actor; false if a is nil, has ended, or is not of the binding's class and world. UE: Cast.
func (b *Binding[T]) Of(a *Actor) (object T, ok bool) {
	if !a.made() || a.dead {
		return object, false
	}
	if p := a.part(b.untyped.class); p.binding == b.untyped && p.object != nil {
		return p.object.(T), true
	}
	return object, false
}

// At returns the object of the actor that ref names; false when [World.Actor] returns nil, or Of returns false.
func (b *Binding[T]) At(ref Ref) (object T, ok bool) { return b.Of(b.world.Actor(ref)) }

// listed returns a list of actors that holds all which have an object of b, and perhaps others.
func (b *Binding[T]) listed() *actors {
	if own := b.world.bindings[b.untyped.class.root()]; own != nil {
		return &own.actors
	}
	return &b.world.actors.all
}

// All yields the actors of the class that live here, with their objects, in the order in which they were spawned, or opened here. As
// with [World.Actors] they may come and go meanwhile.
func (b *Binding[T]) All() iter.Seq2[*Actor, T] {
	return func(yield func(*Actor, T) bool) {
		b.listed().all(func(a *Actor) bool {
			object, ok := b.Of(a)
			return !ok || yield(a, object)
		})
	}
}

// At says where objects of b stand. Their actors are then open for the connections whose view is nearer than the class's
// [CullDistance]: [Conn.SetView] says from where a connection sees. They close, with reason [Relevancy], 5 s after they were last
// seen. UE: GetActorLocation, as AActor::IsNetRelevantFor asks it.
//
// The order of rules is Unreal's: an actor that was spawned with [AlwaysRelevant] is open for everybody; an actor is relevant to its
// owner, and to a connection whose view it is; [RelevantAsOwner] and [OnlyRelevantToOwner] come next, and the distance last. The game
// decides about actors that are attached or hidden: see [Relevant].
//
// fn is called on the world's goroutine: when an actor is spawned, and then ten times a second for each actor, in Flush, spread over
// the Flushes. As often Flush looks at what surrounds each connection. So an actor that comes near opens at most 0.3 s later, the
// nearest first, at most 1,000 at a Flush. A tick pays for a part of the actors and for those that are near, not for all pairs: at
// 30 Hz 10,000 actors that stand still take 0.06 ms, and 100 connections that are near to 200 of them each take 0.3 ms. An actor whose
// position is not finite stands nowhere. When a client has no channel left for an actor, the log says so, and it is tried again each
// second.
//
// OpenTo and CloseTo still work: an actor that OpenTo opened stays until it was out of sight for 5 s, and one that CloseTo closed
// opens again if it is near. When the path does not take all updates, those of actors far away wait longer: see [UpdatePriority].
//
// At panics if fn is nil, or b has one.
func At[T any](b *Binding[T], fn func(object T) (x, y, z float32)) {
	u := b.untyped
	mustHook("At", u.class, fn == nil, u.at != nil)
	u.at = func(object any) (x, y, z float32) { return fn(object.(T)) }
}

// Relevant makes fn decide, instead of the distance, for which connections actors of b are open. Owner, view and the options of Spawn
// come first, as for [At]: fn cannot refuse an actor to its owner, nor to a connection whose view it is. An actor closes 5 s after
// fn last returned true. [Conn.View] says from where viewer sees. UE: an override of AActor::IsNetRelevantFor, after the rules above.
//
// fn is called on the world's goroutine in Flush, once a second for each pair of an actor and a connection, spread over the Flushes, and
// at most 20,000 times in one: at 30 Hz, 10,000 actors and 100 connections take 1.7 s a round. It must be quick. An At beside it serves
// only as a view. Relevant panics if fn is nil, or b has one.
func Relevant[T any](b *Binding[T], fn func(object T, viewer *Conn) bool) {
	u := b.untyped
	mustHook("Relevant", u.class, fn == nil, u.relevant != nil)
	u.relevant = func(object any, viewer *Conn) bool { return fn(object.(T), viewer) }
}

// checked is the argument of [Check]: a *[ServerRPC], or a *[Request] that [ServerRequest] declared.
type checked[A any] interface {
	takes(A)
	declared() *method
}

// mustHook panics if the function is missing that by binds to a class, a method or a state, or if that has one already.
func mustHook(by string, to fmt.Stringer, missing, bound bool) {
	switch {
	case missing:
		panic(fmt.Sprintf("rpc: %s(%v): no function", by, to))
	case bound:
		panic(fmt.Sprintf("rpc: %s(%v): it has a function already", by, to))
	}
}

// endpoint runs the calls of one method for one binding. They run one at a time on the world's goroutine, so all are decoded
// into one arg.
type endpoint[T, A any] struct {
	m     *method
	run   func(T, *Call, A)
	check func(T, *Call, A) error
	arg   A
}

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
	e.arg = zero // lets the collector have what the handler did not keep
	return nil
}

func (e *endpoint[T, A]) local(object any, call *Call, arg any) {
	e.run(object.(T), call, arg.(A))
}

// validationError is the error of a Validate or a Check.
type validationError struct {
	method *method
	cause  error
}

func (e *validationError) Error() string {
	return fmt.Sprintf("rpc: %v refused: %v", e.method, e.cause)
}

func (e *validationError) Unwrap() error { return e.cause }
