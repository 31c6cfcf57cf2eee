package rpc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"sync"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/words"
)

// A Handle is a declared call with an argument of type A. It is a *[ServerRPC], a
// *[ClientRPC] or a *[MulticastRPC].
type Handle[A any] interface {
	// Call calls the method on a. Like everything that involves actors, it must be called on the
	// world's goroutine.
	//
	// If Call returns an error, nothing was sent and nothing will run. The exception is a
	// Multicast: if it fails for one client, it carries on with the other clients. A nil actor is
	// an error. Errors are logged only at Debug, in the category reliable.
	//
	// If the call is sent, arg is encoded before Call returns. If it runs in this world, the
	// world keeps arg itself, or a copy of it if it is a Raw.
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

// A declaration is the part that all handles have in common.
type declaration struct{ m *method }

// Delivery implements [Handle].
func (d declaration) Delivery() bunch.Delivery { return d.m.delivery }

// String implements [Handle].
func (d declaration) String() string { return d.m.String() }

func (d declaration) declared() *method { return d.m }

// Server declares a call that the owner of an actor makes and the server runs. Server, Client
// and Multicast panic if the declaration is not valid.
func Server[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *ServerRPC[A] {
	return &ServerRPC[A]{declaration{declare[A](class, name, serverRPC, d, opts)}}
}

// Client declares a call that the server makes and the owner of the actor runs.
func Client[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *ClientRPC[A] {
	return &ClientRPC[A]{declaration{declare[A](class, name, clientRPC, d, opts)}}
}

// Multicast declares a call that the server makes. It runs on the server and on every client for
// which the actor is open.
//
// If the actor's class has [At] or [Relevant], the first Multicast after Spawn opens the actor
// for all clients to which it is relevant. Later Multicasts reach the clients for which it is
// open at the time.
func Multicast[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *MulticastRPC[A] {
	return &MulticastRPC[A]{declaration{declare[A](class, name, multicastRPC, d, opts)}}
}

// Call runs the method of a on the server. On a client it returns ErrNotOwner if the client does
// not own a. See [Handle] for goroutines, errors and retained arguments.
func (h *ServerRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

// Call runs the method of a on the client that owns a or, if there is none, on the server. If a
// client makes the call, the method runs on that client.
//
// If the owner's connection has ended but OnDisconnect has not run yet, Call returns nil, and
// Drops.Gone of [Stats] counts the call. See [Handle] for goroutines, errors and retained
// arguments.
func (h *ClientRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

// Call runs the method of a on this server and on all clients for which a is open. If a client
// makes the call, the method runs only on that client. See [Handle] for goroutines, errors and
// retained arguments.
func (h *MulticastRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

func (h *ServerRPC[A]) takes(A) {}

// call implements the Call methods.
func call[A any](a *Actor, m *method, arg A) error {
	if !a.valid() {
		return fmt.Errorf("rpc: %v called on %s", m, noActor)
	}
	err := routeCall(a, m, arg)
	if err != nil {
		// Log only at Debug, because the caller has the error and may not consider it worth a
		// warning.
		a.world.logs.Failed(m, err)
	}
	return err
}

// routeCall determines where a call has to run, and sends it there or queues it here.
func routeCall[A any](a *Actor, m *method, arg A) error {
	plan, err := a.world.route(a, m)
	if err != nil {
		return err
	}
	p := m.args.Get().(*A)
	*p = arg
	defer putArg(m, p)
	if err := m.codec.Validate(p); err != nil {
		return &validationError{method: m, cause: err}
	}
	return plan.carryOut(a, m, 0, p, func() any { return retain(p) })
}

// Raw is an argument that is not encoded: a []byte that is sent unchanged. Together with the
// bytes that name the method, it may take at most Config.Bunch.MaxBunch bytes.
//
// Call copies the bytes before it returns. A handler may use them until it returns, and must copy
// any bytes that it wants to keep, because a later call of any connection reuses their memory. If
// a Raw is the answer to a request, the asker may keep it.
type Raw = codec.Raw

// None is the argument of a call without an argument.
type None = codec.None

// ErrTooLong means that a field of an argument exceeds the bound set by its quiver tag, or by
// the MaxEncodedSize of its type. The error that wraps it names the field, its size and the
// bound.
var ErrTooLong = codec.ErrTooLong

// retain returns the argument at p as a value that outlives the call. For a Raw, it copies the
// bytes.
func retain[A any](p *A) any {
	if raw, ok := any(p).(*Raw); ok {
		return Raw(bytes.Clone(*raw))
	}
	return *p
}

// Deliveries, as described by [bunch.Delivery]. A declaration always names one.
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

func (k kind) String() string { return kindNames[k] }

var kindNames = [...]string{serverRPC: "Server", clientRPC: "Client", multicastRPC: "Multicast"}

// A method is one declared call, without its type parameters. Once a world uses its class, only
// args changes, which is safe for concurrent use.
type method struct {
	class *Class
	id    int    // index in the methods of the actor's class, and on the wire
	name  string // "Class.Method"

	// As declared.
	kind      kind
	delivery  bunch.Delivery
	policy    sendPolicy
	rateLimit float64 // calls per second from one connection; 0 if there is no limit
	anyCaller bool    // option AnyCaller
	skipOwner bool    // option SkipOwner
	waits     bool    // option WaitForActors

	// A request is declared as two methods, the question and its answer.
	role role    // which of the two methods this is, if any
	pair *method // the other method

	// The argument.
	arg    reflect.Type
	refers bool // the argument may contain a Ref
	codec  *codec.Codec
	least  int       // minimum size of a call in bytes
	args   sync.Pool // of *A, because encoding an argument without boxing needs its address
}

// String returns "Class.Method".
func (m *method) String() string { return m.name }

// shapeKind returns the beginning of m's line in the shape, before the delivery and the argument.
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
	Reliable:            "Reliable",
	ReliableUnordered:   "ReliableUnordered",
	Unreliable:          "Unreliable",
	UnreliableSequenced: "UnreliableSequenced",
}

// appendID appends the id of m. Every call begins with the id of its method.
func (m *method) appendID(b []byte) []byte { return binary.AppendUvarint(b, uint64(m.id)) }

// encode encodes the argument at p.
func (m *method) encode(e *codec.Encoder, p any) error {
	if err := e.Encode(m.codec, p); err != nil {
		return errorf("rpc: %v: argument %v: %w", m, m.arg, err)
	}
	return nil
}

// undecodable returns the error for an argument of size bytes that can't be decoded.
func (m *method) undecodable(size int, err error) error {
	return errorf("rpc: %v: argument of %s: %w", m, words.Bytes(size), err)
}

// validate calls Validate of the argument at p, and returns its error as a *validationError.
// routeCall does the same inline, which saves 2 ns per call.
func (m *method) validate(p any) error {
	if err := m.codec.Validate(p); err != nil {
		return &validationError{method: m, cause: err}
	}
	return nil
}

// A MethodOption is an option of a method's declaration.
type MethodOption func(*method)

// RateLimit limits how often one connection may call a Server RPC, to perSecond calls a second on
// average and bursts of at most perSecond calls. Calls beyond the limit are dropped and counted,
// even reliable calls. The client is informed only if the call is a [Request].
//
// Calls count at the time they arrive, so the time that they wait for a busy server makes no
// difference. However, reliable calls that were held up by an outage of the path arrive all at
// once. An honest client that makes n calls a second during a three-second outage needs a limit
// of 4n.
func RateLimit(perSecond float64) MethodOption {
	mustBePositive("RateLimit", perSecond)
	return func(m *method) { m.rateLimit = perSecond }
}

// AnyCaller lets clients that do not own the actor call a Server RPC.
func AnyCaller() MethodOption {
	return func(m *method) { m.anyCaller = true }
}

// SkipOwner excludes the client that owns the actor from a Multicast. That client may have
// predicted the shot, for instance, or may itself be the speaker whom the others hear. UE:
// COND_SkipOwner, which is only for properties. Functions in Unreal check IsLocallyControlled
// first.
func SkipOwner() MethodOption { return func(m *method) { m.skipOwner = true } }

// A sendPolicy determines when a call is sent. UE: ERemoteFunctionSendPolicy.
type sendPolicy uint8

const (
	atFlush    sendPolicy = iota // with the calls of its tick, before states
	forceSend                    // at once
	forceQueue                   // at Flush, after the states of its actor
	bothForced                   // both options, which contradict each other
)

// ForceSend sends calls at once, without waiting for Flush, even if a handler makes them between
// Dispatch and Flush. Use it for calls, reliable or not, that would suffer from a tick's delay. UE:
// ForceSend, which is for unreliable calls only.
//
// All earlier calls on the connection are sent first, and each call with ForceSend may need a
// datagram of its own. Like any other call, it still waits for the path, the rate and the
// reliable buffer.
func ForceSend() MethodOption { return func(m *method) { m.policy |= forceSend } }

// ForceQueue sends calls of an unreliable Client or Multicast RPC after the states and lists
// of their actor. UE: ForceQueue.
//
// The calls are sent in the next Flush in which [UpdateRate] allows an update of the actor.
// Unless packets are lost or reordered, the handler therefore finds the states of that Flush, and
// OnRep has already run. An argument may take at most 1,000 bytes.
//
// The calls wait for as long as the states do, whether for the path, the rate or the client's
// open. If more than 8 KiB are waiting for an actor, further calls are dropped and counted in
// Drops.Saturated.
//
// If the actor closes for the client, the waiting calls are dropped and counted in
// Drops.ActorClosed. A call made in the tick in which its actor is destroyed or torn off
// therefore reaches no client. When an actor goes dormant, however, its close waits for the
// calls.
func ForceQueue() MethodOption { return func(m *method) { m.policy |= forceQueue } }

// WaitForActors is for a Client or Multicast RPC whose argument contains a [Ref]. It makes a call
// wait on the client until all actors that its argument names are open there. UE:
// net.DelayUnmappedRPCs.
//
// A call waits for no more than 5 seconds, during which the actor's later calls may run before it.
// Up to 64 calls per connection may wait, with up to 64 KiB of arguments. Calls beyond these limits
// and calls of other methods don't wait. When they run, or when a call has waited for 5 seconds, a
// Ref that names no open actor becomes 0, and is counted in [Drops].
func WaitForActors() MethodOption { return func(m *method) { m.waits = true } }

// declare adds a method with an argument of type A to class. It panics if the declaration isn't
// valid.
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
	class.addMethod(m)
	m.mustHaveValidOptions()

	var err error
	if m.refers, err = references.In(m.arg); err != nil {
		panic(fmt.Sprintf("rpc: %v: %v", m, err))
	}
	if m.waits && (!m.refers || k == serverRPC) {
		panic(fmt.Sprintf("rpc: %v: WaitForActors requires a Client or Multicast RPC whose argument contains a Ref", m))
	}
	if m.codec, err = codec.Of(m.arg); err != nil {
		panic(fmt.Sprintf("rpc: %v: %v", m, err))
	}
	m.least = len(m.appendID(nil)) + m.codec.Size().Least
	m.mustFit()
	return m
}

// mustFit panics if even the smallest call is too large to be sent, whatever Config.Bunch is.
func (m *method) mustFit() {
	setting := "bunch.MaxBunchBytes): use package stream for larger data"
	if m.policy == forceQueue {
		setting = "ForceQueue)"
	}
	if limit := m.maxBytes(bunch.MaxBunchBytes); m.least > limit {
		panic(fmt.Sprintf("rpc: %v: call has at least %d bytes with its argument %v; the limit is %d (%s",
			m, m.least, m.arg, limit, setting))
	}
}

// maxBytes returns the maximum size of a call of the method if messages have up to maxBunch bytes.
func (m *method) maxBytes(maxBunch int) int {
	if m.policy == forceQueue {
		return maxQueuedCall(maxBunch)
	}
	return maxBunch
}

// mustHaveValidOptions panics if the method's delivery doesn't exist, or if its options aren't
// compatible with its kind, its delivery or one another.
func (m *method) mustHaveValidOptions() {
	switch {
	case m.delivery > UnreliableSequenced:
		panic(fmt.Sprintf("rpc: %v: unknown delivery %d", m, m.delivery))
	case m.kind != serverRPC && (m.rateLimit != 0 || m.anyCaller):
		panic(fmt.Sprintf("rpc: %v: RateLimit and AnyCaller require a Server RPC", m))
	case m.kind != multicastRPC && m.skipOwner:
		panic(fmt.Sprintf("rpc: %v: SkipOwner requires a Multicast RPC", m))
	case m.policy == bothForced:
		panic(fmt.Sprintf("rpc: %v: ForceSend and ForceQueue are mutually exclusive", m))
	case m.policy == forceQueue && m.kind == serverRPC:
		panic(fmt.Sprintf("rpc: %v: ForceQueue requires a Client or Multicast RPC, because clients send no states", m))
	case m.policy == forceQueue && m.delivery != Unreliable:
		panic(fmt.Sprintf("rpc: %v: ForceQueue requires Unreliable delivery, because calls with states are sent once and unordered",
			m))
	}
}

// putArg clears an argument that came from m.args, and puts it back there.
func putArg[A any](m *method, p *A) {
	var zero A
	*p = zero
	m.args.Put(p)
}
