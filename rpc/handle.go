package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/codec"
)

// Handle is a declared call that takes an A: a *[ServerRPC], a *[ClientRPC] or a *[MulticastRPC].
type Handle[A any] interface {
	// Call calls the method on a. It belongs to the world's goroutine, like everything that touches actors. After an error
	// nothing was sent and nothing will run, except that a Multicast which fails for one client goes on with the others. A nil
	// actor is an error, too; it is not logged, for it has no world. A call that is sent encodes arg; one that runs in this
	// world keeps it as it is.
	Call(a *Actor, arg A) error
	// Delivery is the delivery that was declared.
	Delivery() bunch.Delivery
	// String returns "Class.Method".
	String() string

	declared() *method
}

// ServerRPC is a call that runs on the server.
type ServerRPC[A any] struct{ m *method }

// ClientRPC is a call that runs on the client that owns the actor.
type ClientRPC[A any] struct{ m *method }

// MulticastRPC is a call that runs on the server and on every client for which the actor is open.
type MulticastRPC[A any] struct{ m *method }

// Server declares a call that the owner of an actor makes and the server runs.
func Server[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *ServerRPC[A] {
	return &ServerRPC[A]{declare[A](class, name, serverRPC, d, opts)}
}

// Client declares a call that the server makes and the owner of the actor runs.
func Client[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *ClientRPC[A] {
	return &ClientRPC[A]{declare[A](class, name, clientRPC, d, opts)}
}

// Multicast declares a call that the server makes, and that it and every client with the actor run.
func Multicast[A any](class *Class, name string, d bunch.Delivery, opts ...MethodOption) *MulticastRPC[A] {
	return &MulticastRPC[A]{declare[A](class, name, multicastRPC, d, opts)}
}

// Call makes the server run the method on a, which this client must own (ErrNotOwner). On the server it runs there. See [Handle] for
// goroutines, errors and what is retained.
func (h *ServerRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

// Call makes the client that owns a run the method. When no client owns a, the server runs it; called on a client, it runs there. See
// [Handle] for goroutines, errors and what is retained.
func (h *ClientRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

// Call makes this server and all clients for which a is open run the method. Called on a client, it runs only there. See [Handle] for
// goroutines, errors and what is retained.
func (h *MulticastRPC[A]) Call(a *Actor, arg A) error { return call(a, h.m, arg) }

// Delivery implements [Handle].
func (h *ServerRPC[A]) Delivery() bunch.Delivery { return h.m.delivery }

// Delivery implements [Handle].
func (h *ClientRPC[A]) Delivery() bunch.Delivery { return h.m.delivery }

// Delivery implements [Handle].
func (h *MulticastRPC[A]) Delivery() bunch.Delivery { return h.m.delivery }

func (h *ServerRPC[A]) String() string    { return h.m.String() }
func (h *ClientRPC[A]) String() string    { return h.m.String() }
func (h *MulticastRPC[A]) String() string { return h.m.String() }

func (h *ServerRPC[A]) declared() *method    { return h.m }
func (h *ServerRPC[A]) takes(A)              {}
func (h *ClientRPC[A]) declared() *method    { return h.m }
func (h *MulticastRPC[A]) declared() *method { return h.m }

// call makes one call, and logs its error, because callers often ignore it.
func call[A any](a *Actor, m *method, arg A) error {
	if !a.made() {
		return fmt.Errorf("rpc: %v called on %s", m, noActor)
	}
	err := place(a, m, arg)
	if err != nil {
		a.world.callFailed(m, err)
	}
	return err
}

// callFailed logs an error that Call returns, at most once a second for each method. It leaves out ErrClosed: the end of an
// actor or a connection is no mistake, and was logged before.
func (w *World) callFailed(m *method, err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	if hidden, ok := w.failWarn.Pass(m, time.Now()); ok { // the world's own time stands still between ticks
		w.log.Warn("call failed", "rpc", m.String(), "error", err, "more", hidden)
	}
}

// place routes one call. For other worlds it encodes and sends the argument at once; for this one it keeps the value until the next
// Dispatch.
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
	e := codec.NewEncoder()
	defer e.Release()
	if plan.remote || m.codec.Refuses() { // an argument that could not be sent is an error here, too
		if err := m.encode(e, p); err != nil {
			return err
		}
	}
	if plan.local {
		if err := a.world.local.add(localCall{actor: a, method: m, arg: keep(p)}, a.world.config.maxLocalCalls()); err != nil {
			return err
		}
	}
	if plan.remote {
		return a.world.transmit(a, m, plan, e.Buf)
	}
	return nil
}

// Raw is an argument that is not encoded: the bytes travel as they are. They are valid until the handler returns; it must
// copy what it keeps.
type Raw = codec.Raw

// None is the argument of a call that has none.
type None = codec.None

// ErrTooLong: a field of an argument is longer than its quiver tag, or the MaxEncodedSize of its type, allows. The error that
// wraps it names the field, its size and the bound.
var ErrTooLong = codec.ErrTooLong

// keep returns the argument at p as a value that outlives the call.
func keep[A any](p *A) any {
	if raw, ok := any(p).(*Raw); ok {
		return Raw(bytes.Clone(*raw))
	}
	return *p
}
