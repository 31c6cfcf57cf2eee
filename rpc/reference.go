package rpc

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/refs"
)

// A Ref identifies an actor in arguments, states and lists, on both sides. 0 means no actor.
// A number is never used again while the server's world exists. UE: FNetworkGUID.
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
// On a server, use [Conn.Actor] instead for a number that a client sent in Raw bytes or in a
// type that decodes itself. A client may name actors that it was never shown.
//
// A client of several servers should use [Conn.Actor] too. The servers number their actors
// independently, and World.Actor returns the first match.
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

// Actor returns the actor that ref names if it is open for c, or if c has a copy of it
// without a channel, such as a dormant or placed one. Otherwise it returns nil.
// [Actor.Channel] distinguishes the two cases. Actor must be called on the world's goroutine.
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

// refType is the type of references to actors. references finds them in arguments.
var (
	refType    = reflect.TypeFor[Ref]()
	references = refs.Finder{Ref: refType, Actor: reflect.TypeFor[Actor]()}
)

// clearUnknown sets references in the argument at p to 0 if they name no actor that is open
// on c, and returns them. A client could otherwise name actors that it was never shown.
func (c *Conn) clearUnknown(p any) (unknown []Ref) {
	references.Each(reflect.ValueOf(p).Elem(), func(v reflect.Value) {
		if ref := Ref(v.Uint()); ref != 0 && c.Actor(ref) == nil {
			unknown = append(unknown, ref)
			v.SetUint(0)
		}
	})
	return unknown
}

const (
	// maxWaiting and maxWaitingBytes limit the calls of a connection
	// that wait for the actors that they name.
	maxWaiting      = 64
	maxWaitingBytes = 64 << 10

	// waitingTime is how long a call waits for its actors. The opens of most are in flight.
	waitingTime = 5 * time.Second
)

// waitingCalls are calls that a client has received and that name actors that are not open
// here yet. They are in order of arrival.
type waitingCalls struct {
	calls   []waitingCall
	bytes   int
	running bool // a call that waited is running; resolve must not make it wait again
}

// A waitingCall is one of waitingCalls.
type waitingCall struct {
	actor    *Actor
	method   *method
	payload  []byte    // the encoded argument
	needs    []Ref     // the actors that the argument names and that were not open
	until    time.Time // time when the call runs without them
	question uint64    // the number of a request's question; 0 = not a request
}

// resolve sets references in an argument to 0 if they name no open actor. If the call must
// wait for those actors instead, resolve stores the call and returns true.
func (c *Conn) resolve(call *Call, m *method, p any, payload []byte) (wait bool) {
	needs := c.clearUnknown(p)
	if len(needs) == 0 {
		return false
	}
	w := &c.waiting
	if !m.waits || c.server || w.running || len(w.calls) == maxWaiting || w.bytes+len(payload) > maxWaitingBytes {
		c.drops.Add(drops.UnknownRef, len(needs))
		return false
	}
	waiting := waitingCall{
		actor:   call.Actor,
		method:  m,
		payload: slices.Clone(payload),
		needs:   needs,
		until:   c.world.frame.beat.Real.Add(waitingTime),
	}
	if call.question != nil {
		waiting.question = call.question.number
	}
	w.calls = append(w.calls, waiting)
	w.bytes += len(payload)
	return true
}

// runWaiting runs the waiting calls whose actors are all open now or whose time is over.
func (w *World) runWaiting(c *Conn) {
	for i := 0; i < len(c.waiting.calls); {
		call := c.waiting.calls[i]
		if !call.actor.dead && w.frame.beat.Real.Before(call.until) && c.lacks(call.needs) {
			i++
			continue
		}
		c.waiting.calls = slices.Delete(c.waiting.calls, i, i+1)
		c.waiting.bytes -= len(call.payload)
		w.runWaited(c, call)
	}
}

// lacks reports whether at least one actor in needs is not open here. It moves the first such
// actor to the front: a call may name 60,000 actors, and each open checks again.
func (c *Conn) lacks(needs []Ref) bool {
	i := slices.IndexFunc(needs, func(ref Ref) bool { return c.Actor(ref) == nil })
	if i > 0 {
		needs[0], needs[i] = needs[i], needs[0]
	}
	return i >= 0
}

// runWaited runs a call that waited.
func (w *World) runWaited(c *Conn, call waitingCall) {
	defer w.game.Catch(c)
	c.waiting.running = true
	w.handling.arrived = w.frame.now
	defer func() { c.waiting.running = false }()
	if violation := w.run(c, call.actor, call.method, call.question, call.payload); violation != nil {
		w.violated(c, violation)
	}
}

// asks reports whether the question with this number waits.
func (w *waitingCalls) asks(number uint64) bool {
	return slices.ContainsFunc(w.calls, func(call waitingCall) bool { return call.question == number })
}

// cancel removes a waiting question.
func (w *waitingCalls) cancel(a *Actor, m *method, number uint64) {
	for i, call := range w.calls {
		if call.actor == a && call.method == m && call.question == number {
			w.bytes -= len(call.payload)
			w.calls = slices.Delete(w.calls, i, i+1)
			return
		}
	}
}
