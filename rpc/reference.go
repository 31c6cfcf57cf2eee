package rpc

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/refs"
)

// A Ref is the network ID of an actor. Arguments, states and lists use it to refer to the actor
// on both sides. 0 means no actor. A number is never used again while the server's world exists.
// UE: FNetworkGUID.
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
// On a server, if a client has sent the number in Raw bytes or in a type that decodes itself, use
// [Conn.Actor] instead, because the client may name actors that it was never shown.
//
// A client of several servers should also use [Conn.Actor]. The servers number their actors
// independently, and World.Actor just returns the first match.
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

// Actor returns the actor that ref names, or nil if the client on c doesn't have it. The actor may
// be open for c, or the client may have a copy whose channel is closed, such as a dormant or
// placed one. [Actor.Channel] tells the two apart. Actor must be called on the world's goroutine.
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

// refType is the type of references to actors, and references finds them in arguments.
var (
	refType    = reflect.TypeFor[Ref]()
	references = refs.Finder{Ref: refType, Actor: reflect.TypeFor[Actor]()}
)

// clearUnknown clears references in the argument at p to actors that Conn.Actor doesn't find, and
// returns them. Otherwise a client could name actors that it was never shown.
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
	// maxWaiting and maxWaitingBytes limit the number and the total size of the calls on a
	// connection that may wait for the actors that they name.
	maxWaiting      = 64
	maxWaitingBytes = 64 << 10

	// waitingTime is how long a call waits for its actors. Most of their opens are in flight.
	waitingTime = 5 * time.Second
)

// waitingCalls are calls that a client has received too early: they name actors that aren't open
// here yet (see WaitForActors). They are in order of arrival.
type waitingCalls struct {
	calls   []waitingCall
	bytes   int
	running bool // one of the calls is running after its wait, and must not wait again
}

// A waitingCall is a single call in waitingCalls.
type waitingCall struct {
	actor    *Actor
	method   *method
	payload  []byte    // the encoded argument
	missing  []Ref     // actors that the argument names but that weren't open
	until    time.Time // when to run the call without the missing actors
	question uint64    // the number of the request's question; 0 if this isn't a request
}

// clearOrPostpone clears references to actors that aren't open in an argument. If the call has to
// wait for these actors, it stores the call instead and returns true.
func (c *Conn) clearOrPostpone(call *Call, m *method, p any, payload []byte) (wait bool) {
	missing := c.clearUnknown(p)
	if len(missing) == 0 {
		return false
	}
	w := &c.waiting
	mayWait := m.waits && !c.server && !w.running
	isFull := len(w.calls) == maxWaiting || w.bytes+len(payload) > maxWaitingBytes
	if !mayWait || isFull {
		c.drops.Add(drops.UnknownRef, len(missing))
		return false
	}

	// The caller forgets the decoded argument. We decode the payload again later.
	waiting := waitingCall{
		actor:   call.Actor,
		method:  m,
		payload: slices.Clone(payload),
		missing: missing,
		until:   c.world.frame.beat.Real.Add(waitingTime),
	}
	if call.question != nil {
		waiting.question = call.question.number
	}
	w.calls = append(w.calls, waiting)
	w.bytes += len(payload)
	return true
}

// runWaiting runs the waiting calls whose actors are all open by now, or whose time is up.
func (w *World) runWaiting(c *Conn) {
	for i := 0; i < len(c.waiting.calls); {
		call := c.waiting.calls[i]
		overdue := !w.frame.beat.Real.Before(call.until)
		if !call.actor.dead && !overdue && call.mustWait(c) {
			i++
			continue
		}
		c.waiting.calls = slices.Delete(c.waiting.calls, i, i+1)
		c.waiting.bytes -= len(call.payload)
		w.runWaited(c, call)
	}
}

// mustWait reports whether one of the missing actors still isn't open on c. It moves the first
// such actor to the front, so that the next check finds it right away. A call may name 60,000
// actors, and every open checks again.
func (call *waitingCall) mustWait(c *Conn) bool {
	i := slices.IndexFunc(call.missing, func(ref Ref) bool { return c.Actor(ref) == nil })
	if i > 0 {
		call.missing[0], call.missing[i] = call.missing[i], call.missing[0]
	}
	return i >= 0
}

// runWaited runs a call that has waited.
func (w *World) runWaited(c *Conn, call waitingCall) {
	defer w.game.Catch(c)
	c.waiting.running = true
	w.handling.arrived = w.frame.now
	defer func() { c.waiting.running = false }()
	if violation := w.runCall(c, call.actor, call.method, call.question, call.payload); violation != nil {
		w.closeForViolation(c, violation)
	}
}

// hasQuestion reports whether the question with the given number is waiting.
func (w *waitingCalls) hasQuestion(number uint64) bool {
	return slices.ContainsFunc(w.calls, func(call waitingCall) bool { return call.question == number })
}

// cancel removes a question that is waiting.
func (w *waitingCalls) cancel(a *Actor, m *method, number uint64) {
	for i, call := range w.calls {
		if call.actor == a && call.method == m && call.question == number {
			w.bytes -= len(call.payload)
			w.calls = slices.Delete(w.calls, i, i+1)
			return
		}
	}
}
