package rpc

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/drops"
)

// refType is the type of what names an actor.
var refType = reflect.TypeFor[Ref]()

// refers reports whether values of t may hold a Ref that arguments are searched for. It panics on one in a map, or behind an
// interface, which could not be set to none there.
func refers(t reflect.Type, m *method) bool { return refersIn(t, m, map[reflect.Type]bool{}) }

func refersIn(t reflect.Type, m *method, seen map[reflect.Type]bool) (found bool) {
	if t == refType {
		return true
	}
	if t == reflect.TypeFor[Actor]() {
		panic(fmt.Sprintf("rpc: %v: an Actor does not travel: use a Ref, which Actor.Ref returns and World.Actor takes", m))
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get("msgpack") != "-" {
				found = refersIn(f.Type, m, seen) || found
			}
		}
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return refersIn(t.Elem(), m, seen)
	case reflect.Map:
		if refersIn(t.Key(), m, seen) || refersIn(t.Elem(), m, seen) {
			panic(fmt.Sprintf("rpc: %v: a Ref in a map can not be checked against what the other side has: use a slice", m))
		}
	}
	return found
}

// eachRef visits the references in an argument.
func eachRef(v reflect.Value, visit func(reflect.Value)) {
	if v.Type() == refType {
		if v.CanSet() {
			visit(v)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous { // whose own fields may be exported
				eachRef(v.Field(i), visit)
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k < reflect.Array && v.Type().Elem() != refType {
			return // numbers
		}
		for i := range v.Len() {
			eachRef(v.Index(i), visit)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			eachRef(v.Elem(), visit)
		}
	}
}

// unknown returns the references in the argument at p that name no actor which is open on c, and sets them to none. A client
// could else name actors that it was never shown.
func (c *Conn) unknown(p any) (refs []Ref) {
	eachRef(reflect.ValueOf(p).Elem(), func(v reflect.Value) {
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
	w := &c.waiting
	if !m.waits || c.server || w.running || len(w.calls) == maxWaiting || w.bytes+len(payload) > maxWaitingBytes {
		c.drops.Add(drops.UnknownRef, len(needs))
		return false
	}
	waiting := waitingCall{actor: call.Actor, method: m, payload: slices.Clone(payload), needs: needs, until: call.Now.Add(waitingTime)}
	if call.question != nil {
		waiting.question = call.question.number
	}
	w.calls = append(w.calls, waiting)
	w.bytes += len(payload)
	return true
}

// runAllWaiting runs the calls whose time is over.
func (w *World) runAllWaiting() {
	for _, c := range w.conns {
		if len(c.waiting.calls) > 0 {
			w.runWaiting(c)
		}
	}
}

// runWaiting runs the calls of which all that they name is open now, or the time is over.
func (w *World) runWaiting(c *Conn) {
	for i := 0; i < len(c.waiting.calls); {
		call := c.waiting.calls[i]
		if !call.actor.dead && w.now.Before(call.until) && slices.ContainsFunc(call.needs, func(ref Ref) bool { return c.Actor(ref) == nil }) {
			i++
			continue
		}
		c.waiting.calls = slices.Delete(c.waiting.calls, i, i+1)
		c.waiting.bytes -= len(call.payload)
		w.runWaited(c, call)
	}
}

// runWaited runs one of them.
func (w *World) runWaited(c *Conn, call waitingCall) {
	defer w.catch(c)
	c.waiting.running, w.arrived = true, w.now
	defer func() { c.waiting.running = false }()
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
