package rpc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/codec"
)

// A Handle is a declared call with an argument A: a *[ServerRPC], a
// *[ClientRPC] or a *[MulticastRPC].
type Handle[A any] interface {
	// Call calls the method on a. Like everything that concerns actors, it must be
	// called on the world's goroutine. If Call returns an error, nothing was sent and
	// nothing will run, except that a Multicast that fails for one client continues
	// with the others. A nil actor is an error, too. Errors are logged at Debug only,
	// in the category reliable. A call that is sent encodes arg before Call returns.
	// A call that runs in this world keeps arg itself, or a copy of a Raw.
	Call(a *Actor, arg A) error
	// Delivery returns the declared delivery.
	Delivery() bunch.Delivery
	// String returns "Class.Method".
	String() string

	declared() *method
}

// A ServerRPC is a call that runs on the server.
type ServerRPC[A any] struct{ declaration }

// A ClientRPC is a call that runs on the client that owns the actor.
type ClientRPC[A any] struct{ declaration }

// A MulticastRPC is a call that runs on the server and on every client for which the actor is open.
type MulticastRPC[A any] struct{ declaration }

// declaration is the common part of all handles.
type declaration struct{ m *method }

// Delivery implements [Handle].
func (d declaration) Delivery() bunch.Delivery { return d.m.delivery }

// String implements [Handle].
func (d declaration) String() string { return d.m.String() }

func (d declaration) declared() *method { return d.m }

// Server declares a call that the owner of an actor makes and the server runs.
// It panics if the declaration is not valid; so do Client and Multicast.
func Server[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *ServerRPC[A] {
	return &ServerRPC[A]{declaration{declare[A](class, name, serverRPC, d, opts)}}
}

// Client declares a call that the server makes and the owner of the actor runs.
func Client[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *ClientRPC[A] {
	return &ClientRPC[A]{declaration{declare[A](class, name, clientRPC, d, opts)}}
}

// Multicast declares a call that the server makes, and that the server and every client with the
// actor run. If the actor's class has [At] or [Relevant], the first Multicast after Spawn opens the
// actor for all clients to which it is relevant. Later Multicasts reach those for which it is open.
func Multicast[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *MulticastRPC[A] {
	return &MulticastRPC[A]{declaration{declare[A](class, name, multicastRPC, d, opts)}}
}

// Call makes the server run the method on a. On a client it returns ErrNotOwner if the
// client does not own a. See [Handle] for goroutines, errors and what is retained.
func (h *ServerRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

// Call makes the client that owns a run the method. If no client owns a, the server
// runs it; called on a client, it runs there. If the connection of that client has
// ended and OnDisconnect has not run, Call returns nil, and Drops.Gone of [Stats]
// counts the call. See [Handle] for goroutines, errors and what is retained.
func (h *ClientRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

// Call makes this server, and all clients for which a is open, run the method. Called on
// a client, it runs only there. See [Handle] for goroutines, errors and what is retained.
func (h *MulticastRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

func (h *ServerRPC[A]) takes(A) {}

// call makes one call. A failure is reported to the caller only, and logged at
// Debug, because a caller that needs no warning ignores the error.
func call[A any](a *Actor, m *method, arg A) error {
	if !a.made() {
		return fmt.Errorf("rpc: %v called on %s", m, noActor)
	}
	err := place(a, m, arg)
	if err != nil {
		a.world.logs.Failed(m, err)
	}
	return err
}

// place routes one call and carries out its plan.
func place[A any](a *Actor, m *method, arg A) error {
	plan, err := a.world.route(a, m)
	if err != nil {
		return err
	}
	p := m.args.Get().(*A)
	*p = arg
	defer release(m, p)
	if err := m.codec.Validate(p); err != nil {
		return &validationError{method: m, cause: err}
	}
	return plan.carry(a, m, 0, p, func() any { return keep(p) })
}

// Raw is an argument that is not encoded: a []byte that is sent as it is. With
// the bytes that name the method it has at most Config.Bunch.MaxBunch.
//
// Call has copied the bytes when it returns. In a handler they are valid until the handler
// returns, and the handler must copy what it keeps, because their memory is used again for
// a later call, of any connection. A Raw that answers a request belongs to the asker.
type Raw = codec.Raw

// None is the argument of a call that has none.
type None = codec.None

// ErrTooLong means that a field of an argument is longer than its quiver tag, or the MaxEncodedSize
// of its type, allows. The error that wraps it names the field, its size and the bound.
var ErrTooLong = codec.ErrTooLong

// keep returns the argument at p as a value that outlives the call.
func keep[A any](p *A) any {
	if raw, ok := any(p).(*Raw); ok {
		return Raw(bytes.Clone(*raw))
	}
	return *p
}

// Deliveries, as [bunch.Delivery] describes them. A declaration always names one.
const (
	Reliable            = bunch.Reliable
	ReliableUnordered   = bunch.ReliableUnordered
	Unreliable          = bunch.Unreliable
	UnreliableSequenced = bunch.UnreliableSequenced
)

// kind is the direction of a method.
type kind uint8

const (
	serverRPC kind = iota
	clientRPC
	multicastRPC
)

func (k kind) String() string { return [...]string{"Server", "Client", "Multicast"}[k] }

// method is one declared call, without its type parameters. Once a world uses its
// class, nothing in it changes except args, which is safe for concurrent use.
type method struct {
	class     *Class
	id        int    // index in the methods of the actor's class, and on the wire
	name      string // "Class.Method"
	kind      kind
	delivery  bunch.Delivery
	rateLimit float64 // calls a second of one connection; 0 = no limit
	anyCaller bool
	skipOwner bool // Multicast only
	policy    sendPolicy
	waits     bool    // WaitForActors
	role      role    // its part in a request
	pair      *method // of a question its answer, and of an answer its question
	refers    bool    // its argument may contain a Ref
	arg       reflect.Type

	codec *codec.Codec
	args  sync.Pool // of *A, because an argument must be in memory to be encoded without boxing
}

// String returns "Class.Method".
func (m *method) String() string { return m.name }

// shapeKind returns the part of the shape's line about m that precedes its delivery and argument.
func (m *method) shapeKind() string {
	switch m.role {
	case isQuestion:
		return m.kind.String() + " request"
	case isAnswer:
		return m.kind.String() + " answer"
	}
	if m.policy == forceQueue {
		return m.kind.String() + " behind states"
	}
	return m.kind.String()
}

// deliveryNames are the names of deliveries in the shape.
var deliveryNames = [...]string{
	Reliable: "Reliable", ReliableUnordered: "ReliableUnordered", Unreliable: "Unreliable", UnreliableSequenced: "UnreliableSequenced",
}

// appendID appends the id of m, with which every call begins.
func (m *method) appendID(b []byte) []byte { return binary.AppendUvarint(b, uint64(m.id)) }

// encode appends the argument at p.
func (m *method) encode(e *codec.Encoder, p any) error {
	if err := e.Encode(m.codec, p); err != nil {
		return errorf("rpc: %v: argument %v: %w", m, m.arg, err)
	}
	return nil
}

// undecodable returns the error for an argument of size bytes that cannot be decoded.
func (m *method) undecodable(size int, err error) error {
	return errorf("rpc: %v: argument of %d bytes: %w", m, size, err)
}

// validate calls Validate of the argument at p, and returns its error as a
// *validationError. Calls do that inline, which saves 2 ns.
func (m *method) validate(p any) error {
	if err := m.codec.Validate(p); err != nil {
		return &validationError{method: m, cause: err}
	}
	return nil
}

// A MethodOption is an option of a method's declaration.
type MethodOption func(*method)

// RateLimit limits how often one connection may call a Server RPC: perSecond calls a second
// on average, in bursts of at most perSecond calls. Further calls, including reliable ones,
// are dropped and counted, and the client is informed only if it is a [Request].
//
// The limit counts calls when they arrive, so calls that waited for a busy server do not exceed
// it. But reliable calls that an outage of the path held up arrive all at once: an honest
// client that makes n calls a second through an outage of three seconds needs a limit of 4n.
func RateLimit(perSecond float64) MethodOption {
	mustBePositive("RateLimit", perSecond)
	return func(m *method) { m.rateLimit = perSecond }
}

// AnyCaller lets clients that do not own the actor call a Server RPC.
func AnyCaller() MethodOption {
	return func(m *method) { m.anyCaller = true }
}

// SkipOwner does not send a Multicast to the client that owns the actor, for instance because that
// client has predicted the shot, or has itself said what the others hear. UE: COND_SkipOwner,
// which is for properties; there each such function begins with IsLocallyControlled.
func SkipOwner() MethodOption { return func(m *method) { m.skipOwner = true } }

// sendPolicy is when a call is sent. UE: ERemoteFunctionSendPolicy.
type sendPolicy uint8

const (
	atFlush    sendPolicy = iota // with the calls of its tick, before states
	forceSend                    // at once
	forceQueue                   // at Flush, after the states of its actor
	bothForced                   // both options, which contradict each other
)

// ForceSend makes calls be sent at once, without waiting for Flush, even if a handler makes them
// between Dispatch and Flush. Use it for calls that a delay of a tick would harm. All earlier
// calls on the connection are sent with it, and each such call may need its own datagram. The
// path, the rate and the reliable buffer hold back these calls like others. UE: ForceSend.
func ForceSend() MethodOption { return func(m *method) { m.policy |= forceSend } }

// ForceQueue makes calls of an unreliable Client or Multicast RPC be sent after the states
// and lists of their actor, in the next Flush in which [UpdateRate] allows an update of
// it. So the handler finds the states of that Flush, and OnRep has run, unless packets are
// lost or overtake each other. An argument has at most 1,000 bytes. UE: ForceQueue.
//
// The calls wait as long as the states wait, for the path, the rate or the client's open, however
// long that is. If more than 8 KiB wait for an actor, further calls are dropped, and counted in
// Drops.Saturated. Calls that wait when the actor closes for the client are dropped, too, and
// counted in Drops.ActorClosed: so a call that is made in the tick in which its actor is destroyed
// or torn off reaches no client. The close of an actor that falls asleep waits for them.
func ForceQueue() MethodOption { return func(m *method) { m.policy |= forceQueue } }

// mustForce panics if m cannot have its send policy.
func (m *method) mustForce() {
	switch {
	case m.policy == bothForced:
		panic(fmt.Sprintf("rpc: %v: ForceSend is before states, and ForceQueue behind them: name one", m))
	case m.policy == forceQueue && m.kind == serverRPC:
		panic(fmt.Sprintf("rpc: %v: ForceQueue is for Client and Multicast RPCs; a client sends no states", m))
	case m.policy == forceQueue && m.delivery != Unreliable:
		panic(fmt.Sprintf("rpc: %v: ForceQueue is for Unreliable calls: what travels with states is sent once, and in no order", m))
	}
}

// WaitForActors makes a Client or Multicast RPC whose argument contains a [Ref] wait at the client
// until all actors that it names are open there. Calls wait for at most 5 seconds, at most 64 of a
// connection, and run in no order with other calls. Without WaitForActors, and after that time, a
// Ref that names no open actor becomes 0, and is counted in [Drops]. UE: net.DelayUnmappedRPCs.
func WaitForActors() MethodOption { return func(m *method) { m.waits = true } }

// declare adds a method with argument type A to class. It panics if the declaration is not valid.
func declare[A any](class *Class, name string, k kind, d bunch.Delivery, opts []MethodOption) *method {
	mustName("method", name)
	mustDeclare(fmt.Sprintf("method %q", name), class)
	m := &method{name: class.name + "." + name, kind: k, delivery: d, arg: reflect.TypeFor[A]()}
	m.args.New = func() any { return new(A) }
	for i, opt := range opts {
		if opt == nil {
			panic(fmt.Sprintf("rpc: %v: option %d is nil", m, i+1))
		}
		opt(m)
	}
	class.add(m)
	if d > UnreliableSequenced {
		panic(fmt.Sprintf("rpc: %v: delivery %d does not exist", m, d))
	}
	if k != serverRPC && (m.rateLimit != 0 || m.anyCaller) {
		panic(fmt.Sprintf("rpc: %v: RateLimit and AnyCaller are for Server RPCs; only a server trusts its callers less", m))
	}
	if k != multicastRPC && m.skipOwner {
		panic(fmt.Sprintf("rpc: %v: SkipOwner is for Multicast RPCs; no other goes to more than one", m))
	}
	m.mustForce()
	var err error
	if m.refers, err = references.In(m.arg); err != nil {
		panic(fmt.Sprintf("rpc: %v: %v", m, err))
	}
	if m.waits && (!m.refers || k == serverRPC) {
		panic(fmt.Sprintf("rpc: %v: WaitForActors is for Client and Multicast RPCs whose argument holds a Ref", m))
	}
	if m.codec, err = codec.Of(m.arg); err != nil {
		panic(fmt.Sprintf("rpc: %v: %v", m, err))
	}
	return m
}

// release clears an argument and returns it to m.args.
func release[A any](m *method, p *A) {
	var zero A
	*p = zero
	m.args.Put(p)
}
