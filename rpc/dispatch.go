package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/tasks"
)

// A Call describes the call that a handler or a check handles, except for the
// argument. It is valid only until the handler or check returns.
type Call struct {
	Actor *Actor
	// The caller's connection; nil if the call was made in this world. [Conn]
	// documents the methods of a nil *Conn.
	Conn *Conn
	Now  time.Time // the time of the Dispatch

	// Arrived is when the call arrived, which is after the last Dispatch. It is
	// exact to 16 µs and, like Now, by the game's clock. For a call that was made in
	// this world, or that has waited for actors, it is Now.
	Arrived time.Time

	question *question // the request's question; nil = the call is not a request
}

// handling is the message that the world's goroutine is handling. Handlers get
// pointers into it, so a call allocates nothing.
type handling struct {
	call     Call
	question question  // the question of call, if call is a request
	arrived  time.Time // when the message arrived, by the game's clock
	// The reason in a message that closes a channel. It is Destroyed if the message
	// also opens the channel: see openAndClose.
	closes CloseReason
	// The handler has run and keeps no byte of the message. It is false for a
	// request, which a goroutine may still answer.
	spent bool
}

// ownerMethod is the id of the message by which the server tells a client whether it
// owns the actor. No class has so many methods.
const ownerMethod = maxMethods

// deliver handles one message of a connection. OnRep functions wait until all states of a
// packet have been applied. The first message of another packet makes them run.
func (w *World) deliver(c *Conn, message bunch.Message) {
	c.trace.Took()
	h := &w.handling
	h.closes = Destroyed
	if message.Close && !message.Open {
		h.closes, _ = parseClose(message.Payload) // before any OnRep runs
	}
	a := c.actorOf(message.Channel)
	samePacket := message.Delivery == bunch.Tracked && message.Number == c.copies.reps.packet
	if len(c.copies.reps.replicas) > 0 && !samePacket {
		w.callRepNotifies(c)
	}
	h.arrived = w.frame.beat.Game.Add(-c.machine.Waited(w.frame.beat.Real, &message))
	h.spent = false
	if message.Channel != 0 {
		c.times.ask.NoteTraffic()
	}
	var violation *CloseError
	switch {
	case message.Delivery == bunch.Tracked && a != nil:
		c.copies.reps.packet = message.Number
		violation = w.applyUpdate(c, a, message)
	case message.Channel == 0:
		w.game.Doing = tasks.Doing{}
		violation = c.control(message.Payload)
	case c.server && (message.Open || message.Close && a != nil):
		violation = violationf(BunchWrongChannel, "a client opened or closed channel %d, which only the server may",
			message.Channel)
	case message.Open:
		violation = w.openActor(c, message)
	case a == nil && !message.Close:
		c.drops.Add(drops.Closed, 1)
	case a == nil: // the peer's answer to a close from this side
	case message.Close:
		violation = w.handleClose(c, a, message)
	default:
		violation = w.invoke(c, a, message.Payload)
	}
	if h.spent && len(message.Payload) > bunch.EntryBytes {
		c.machine.Reuse(&message)
	}
	if violation != nil {
		w.violated(c, violation)
	}
}

// violated closes a connection whose peer broke a rule, and logs the violation.
func (w *World) violated(c *Conn, cause *CloseError) {
	w.logs.Guest(slog.LevelWarn, logs.Violated, c.party(), "connection closed for a violation",
		"conn", c, "code", cause.Code.String(), "reason", cause.Reason)
	c.abort(cause)
}

// violationf returns the error for a peer that broke a rule.
func violationf(code Code, format string, args ...any) *CloseError {
	return &CloseError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// stateMethod is the id of the message by which the server sends the last state of
// an actor whose channel closes.
const stateMethod = maxMethods + 1

// invoke runs a call from the peer, unless the call is a violation or is dropped.
func (w *World) invoke(c *Conn, a *Actor, payload []byte) *CloseError {
	id, n := binary.Uvarint(payload)
	if n <= 0 {
		return violationf(PayloadFail, "call on a %q: no method id in %d bytes", a.class.name, len(payload))
	}
	payload = payload[n:]
	if id == ownerMethod && !c.server {
		return a.handleOwner(payload)
	}
	if id == stateMethod && !c.server {
		return w.applyLastState(c, a, payload)
	}
	if id >= uint64(len(a.class.methods)) {
		return violationf(UnknownMethod, "class %q has no method %d, only %d", a.class.name, id, len(a.class.methods))
	}
	m := a.class.methods[id]
	if c.server != (m.kind == serverRPC) {
		return violationf(WrongDirection, "%v is a %v RPC", m, m.kind)
	}
	w.logs.Received(c.logged(m, len(payload)), a)
	if m.role != isCall {
		return w.invokeRequest(c, a, m, payload)
	}
	if reason := w.dropReason(c, a, m); reason != drops.None {
		c.drop(reason, a, m)
		return nil
	}
	return w.run(c, a, m, 0, payload)
}

// run runs a call or question from the peer that dropReason let pass. number is the
// number of a question, or 0 for a call.
//
// If the call has waited for actors, run is called later than dropReason, and a may
// have ended in the meantime.
func (w *World) run(c *Conn, a *Actor, m *method, number uint64, argument []byte) *CloseError {
	var q *question
	switch {
	case a.dead:
		c.drop(drops.Closed, a, m)
		return nil
	case number == 0:
	case c.requests.questions.Full(), w.background.jobs.Of(&c.requests.running, c.party()) >= w.config.MaxRequests:
		w.dropQuestion(c, a, m, number, drops.Requests)
		return nil
	default:
		q = &w.handling.question
		*q = question{conn: c, actor: a, method: m, number: number}
	}
	err := w.handle(c, a, m, q, argument)
	if q != nil && !c.server && invalid(err) {
		q.refuse(ask.Failed, err)
	}
	return w.violationOf(c, m, err)
}

// handle runs the handler of a call from the peer. q is the question if the call is
// a request, and otherwise nil.
func (w *World) handle(c *Conn, a *Actor, m *method, q *question, argument []byte) error {
	h := &w.handling
	h.call = Call{Actor: a, Conn: c, Now: w.frame.now, Arrived: h.arrived, question: q}
	w.game.Doing = tasks.Doing{Of: m}
	p := a.partOf(m.class)
	began := c.trace.Begin()
	err := p.binding.handlers[m.id].remote(p.object, &h.call, argument)
	h.spent = m.arg == reflect.TypeFor[Raw]() && q == nil
	c.trace.Handled(m.name, a.class.name, uint64(a.ref), len(argument), began)
	return err
}

// dropReason returns why a call from the peer is dropped, or drops.None. It is
// called before the argument is decoded.
func (w *World) dropReason(c *Conn, a *Actor, m *method) drops.Reason {
	p := a.partOf(m.class)
	switch {
	case a.dead:
		return drops.Closed
	case !p.bound() || !p.binding.handles(m):
		return drops.Unbound
	case c.server && a.conn != c && !m.anyCaller:
		return drops.NotOwner
	case m.rateLimit > 0 && !c.allow(m):
		return drops.RateLimited
	}
	return drops.None
}

// drop counts a dropped call on a, and logs a warning at most once a second for each reason.
func (c *Conn) drop(reason drops.Reason, a *Actor, m *method) {
	hidden, ok := c.drops.Blame(reason, c.world.frame.now)
	if !ok {
		return
	}
	log := c.world.log.With("conn", c, "rpc", m.String(), "reason", reason.String(), "more", hidden)
	switch reason {
	case drops.RateLimited:
		log = log.With("limit", fmt.Sprintf("RateLimit(%v)", m.rateLimit))
	case drops.NotOwner:
		log = log.With("channel", a.Channel(c).number, "owner", a.ownerName())
	}
	log.Warn("call dropped")
}

// allow reports whether the RateLimit of m permits the call that is being handled.
func (c *Conn) allow(m *method) bool {
	limit := c.limits[m]
	ok := limit.Allow(m.rateLimit, c.world.handling.arrived, c.world.frame.now)
	c.limits[m] = limit
	return ok
}

// logged returns the description of a call of m for log records.
func (c *Conn) logged(m *method, bytes int) logs.Call {
	return logs.Call{
		Conn:     c,
		RPC:      m,
		Bytes:    bytes,
		Entries:  bunch.Entries(bytes),
		Reliable: m.delivery <= bunch.ReliableUnordered,
	}
}

// violationOf converts the error of handler.remote to a violation. A client trusts its
// server, so it only drops and counts a call whose argument Validate refuses.
func (w *World) violationOf(c *Conn, m *method, err error) *CloseError {
	switch {
	case err == nil:
		return nil
	case !invalid(err):
		return &CloseError{Code: PayloadFail, Reason: err.Error(), cause: err}
	case !c.server:
		c.drop(drops.Invalid, nil, m)
		return nil
	}
	return &CloseError{Code: ValidationFailed, Reason: err.Error(), cause: err}
}

// invalid reports whether err came from a Validate or a Check.
func invalid(err error) bool {
	_, refused := errors.AsType[*validationError](err)
	return refused
}

// localCall is a call that runs in the world that made it.
type localCall struct {
	actor    *Actor
	method   *method
	arg      any    // the argument, as a value
	question uint64 // the number of a request's question; 0 = the call is not a request
}

// localCalls are the calls that run in the world that made them, in order. They are
// used only by the world's goroutine.
type localCalls struct {
	tasks.Queue[localCall]
	due int // number of calls, from the first, that are still to run in this Dispatch
}

// add queues a call for the next Dispatch, unless limit calls already wait for it.
func (l *localCalls) add(call localCall, limit int) error {
	if waiting := l.Len() - l.due; waiting >= limit {
		return errorf("rpc: %v does not run here: %d local calls wait for a Dispatch, the limit is Config.MaxLocalCalls: %w",
			call.method, waiting, ErrBacklogFull)
	}
	l.Add(call)
	return nil
}

// runLocal runs the calls that were queued before this Dispatch. Calls that they
// queue wait for the next Dispatch.
func (w *World) runLocal() {
	w.local.due = w.local.Len()
	w.game.All(w.runNextLocal)
}

// runNextLocal runs the next call of this Dispatch, and returns false if there is none. It
// first removes the call from the queue, so a panic loses only that call.
func (w *World) runNextLocal() bool {
	if w.local.due == 0 {
		return false
	}
	w.local.due--
	l, _ := w.local.Take()
	p := l.actor.partOf(l.method.class)
	if l.actor.dead || !p.bound() { // the actor has ended, or its constructor has returned no object
		w.dropped.Add(1)
		return true
	}
	w.handling.call = Call{Actor: l.actor, Now: w.frame.now, Arrived: w.frame.now}
	w.game.Doing = tasks.Doing{Of: l.method}
	if l.method.role == isQuestion {
		w.runQuestionHere(l)
	} else {
		p.binding.handlers[l.method.id].local(p.object, &w.handling.call, l.arg)
	}
	return true
}

// Context returns, in the handler of a [Request], a context that ends when the request is
// answered or when nobody waits for the answer any more. The latter is the case if the
// request was canceled, its time is over, or the actor or the connection has ended.
//
// The handler may keep the context. In other calls the context never ends.
func (c *Call) Context() context.Context {
	q := c.question
	if q == nil {
		return context.Background()
	}
	if q.postponed != nil {
		q = q.postponed
	}
	if q.ctx == nil {
		q.ctx, q.cancel = context.WithCancelCause(context.Background())
	}
	return q.ctx
}
