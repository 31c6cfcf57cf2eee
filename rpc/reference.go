package rpc

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/refs"
)

// Ref names an actor in arguments, states and lists, on whichever side. UE: FNetworkGUID. Numbers are never used again while the
// server's world lives; 0 names none. It is resolved where it is used: [World.Actor] and [Conn.Actor] return nil when the actor is
// dead, or not open here.
type Ref uint64

func (r Ref) String() string {
	if r == 0 {
		return "no actor"
	}
	return fmt.Sprintf("actor %d", uint64(r))
}

// Actor returns the actor that ref names, nil when it is dead or not open here. On a server use [Conn.Actor] for a number that
// came from a client and lies in Raw bytes or in a type that reads itself: a client may name actors that it was never shown. On a client
// of several servers use it too: each server counts by itself, and this is the first one's.
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

// Actor returns the actor that ref names when it is open for c, or dormant there, else nil. It belongs to the world's goroutine.
func (c *Conn) Actor(ref Ref) *Actor {
	if !c.server {
		return c.copies.byRef[ref]
	}
	if a := c.world.actors.byRef[ref]; a != nil && (c.shown.opened(a) || c.shown.sleeps(a)) {
		return a
	}
	return nil
}

// refType is the type of what names an actor; references finds it in arguments.
var (
	refType    = reflect.TypeFor[Ref]()
	references = refs.Finder{Ref: refType, Actor: reflect.TypeFor[Actor]()}
)

// unknown returns the references in the argument at p that name no actor which is open on c, and sets them to none. A client
// could else name actors that it was never shown.
func (c *Conn) unknown(p any) (refs []Ref) {
	references.Each(reflect.ValueOf(p).Elem(), func(v reflect.Value) {
		if ref := Ref(v.Uint()); ref != 0 && c.Actor(ref) == nil {
			refs = append(refs, ref)
			v.SetUint(0)
		}
	})
	return refs
}

const (
	// maxWaiting calls, and bytes of them, at most wait on a connection for the actors that they name.
	maxWaiting, maxWaitingBytes = 64, 64 << 10
	// waitingTime is how long a call waits for them: their opens are mostly on their way.
	waitingTime = 5 * time.Second
)

// waitingCalls are those of a client's connection that name actors which are not open here yet, in the order in which they came.
type waitingCalls struct {
	calls   []waitingCall
	bytes   int
	running bool // the call that runs now waits no more
}

type waitingCall struct {
	actor   *Actor
	method  *method
	payload []byte
	needs   []Ref
	until   time.Time

	question uint64 // its number, of a request
}

// resolve prepares the references of an argument for its handler. It reports whether the call shall wait for their actors instead.
func (c *Conn) resolve(call *Call, m *method, p any, payload []byte) (wait bool) {
	needs := c.unknown(p)
	if len(needs) == 0 {
		return false
	}
	w := &c.copies.waiting
	if !m.waits || c.server || w.running || len(w.calls) == maxWaiting || w.bytes+len(payload) > maxWaitingBytes {
		c.drops.Add(drops.UnknownRef, len(needs))
		return false
	}
	waiting := waitingCall{actor: call.Actor, method: m, payload: slices.Clone(payload), needs: needs, until: c.world.frame.beat.Real.Add(waitingTime)}
	if call.question != nil {
		waiting.question = call.question.number
	}
	w.calls = append(w.calls, waiting)
	w.bytes += len(payload)
	return true
}

// runAllWaiting runs the calls whose time is over.
func (w *World) runAllWaiting() {
	for _, c := range w.announced {
		if len(c.copies.waiting.calls) > 0 {
			w.runWaiting(c)
		}
	}
}

// runWaiting runs the calls of which all that they name is open now, or the time is over.
func (w *World) runWaiting(c *Conn) {
	for i := 0; i < len(c.copies.waiting.calls); {
		call := c.copies.waiting.calls[i]
		if !call.actor.dead && w.frame.beat.Real.Before(call.until) && slices.ContainsFunc(call.needs, func(ref Ref) bool { return c.Actor(ref) == nil }) {
			i++
			continue
		}
		c.copies.waiting.calls = slices.Delete(c.copies.waiting.calls, i, i+1)
		c.copies.waiting.bytes -= len(call.payload)
		w.runWaited(c, call)
	}
}

// runWaited runs one of them.
func (w *World) runWaited(c *Conn, call waitingCall) {
	defer w.game.Catch(c)
	c.copies.waiting.running, w.arrived = true, w.frame.now
	defer func() { c.copies.waiting.running = false }()
	run := w.run
	if call.method.role == isQuestion {
		run = func(c *Conn, a *Actor, m *method, payload []byte) *CloseError {
			return w.runQuestion(c, a, m, call.question, payload)
		}
	}
	if violation := run(c, call.actor, call.method, call.payload); violation != nil {
		w.violated(c, violation)
	}
}

// asks reports whether a question waits.
func (w *waitingCalls) asks(number uint64) bool {
	return slices.ContainsFunc(w.calls, func(call waitingCall) bool { return call.question == number })
}

// cancel forgets a question that waits.
func (w *waitingCalls) cancel(a *Actor, m *method, number uint64) {
	for i, call := range w.calls {
		if call.actor == a && call.method == m && call.question == number {
			w.bytes -= len(call.payload)
			w.calls = slices.Delete(w.calls, i, i+1)
			return
		}
	}
}
