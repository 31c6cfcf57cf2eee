package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/refs"
	"github.com/quivernet/quiver/internal/tasks"
	"github.com/quivernet/quiver/internal/words"
)

// A Call describes a call to a handler or a check, apart from the argument. It is only valid
// until the handler or check returns.
type Call struct {
	Actor *Actor

	// Conn is the caller's connection, or nil if the call was made in this world. See [Conn] for
	// the behavior of a nil *Conn.
	Conn *Conn

	// Now is the time of the Dispatch.
	Now time.Time

	// Arrived is when the call arrived, some time after the previous Dispatch. It is accurate to
	// 16 µs and, like Now, uses the game's clock. For a call that was made in this world or has
	// waited for actors, Arrived equals Now.
	Arrived time.Time

	question *question // the request, or nil if this is an ordinary call
}

// Context returns, in the handler of a [Request], a context that ends when the request is
// answered. It also ends when nobody is waiting for the answer any longer, because the
// request was canceled or has timed out, or because the actor or the connection has ended.
//
// The handler may keep the context. If the call isn't a request, the context never ends.
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

// handling is the message that the world's goroutine is handling. Handlers get pointers into it, so
// calls need no allocation.
type handling struct {
	call     Call
	question question  // what call.question points to, if call is a request
	arrived  time.Time // when the message arrived, by the game's clock

	// The close reason, if the message closes a channel. It's Destroyed for all other messages,
	// and for a message that both opens and closes the channel (see openAndClose).
	closeReason CloseReason

	// True if the handler hasn't kept any of the message's bytes, so their memory can be reused.
	// It's never true for a request, since a goroutine may still be answering it.
	reusable bool
}

// ownerMethod is the id of the message that tells a client whether it owns the actor. No class
// has enough methods for one to have this id.
const ownerMethod = maxMethods

// deliver handles one message of a connection.
//
// OnRep functions must not run until all states of a packet have been applied, so they run when
// the first message of another packet is delivered.
func (w *World) deliver(c *Conn, message bunch.Message) {
	c.trace.Took()
	h := &w.handling
	h.closeReason = Destroyed
	if message.Close && !message.Open {
		// OnRep functions may call the actor, and the error of such a call depends on the reason.
		h.closeReason, _ = parseClose(message.Payload)
	}

	a := c.channels.of(message.Channel)
	samePacket := message.Delivery == bunch.Tracked && message.Number == c.copies.reps.packet
	if len(c.copies.reps.replicas) > 0 && !samePacket {
		w.callRepNotifies(c)
	}

	h.arrived = w.frame.beat.Game.Add(-c.machine.Waited(w.frame.beat.Real, &message))
	h.reusable = false
	if message.Channel != 0 {
		// Once the estimate of the server's clock is accurate, a client asks for the time only
		// after other traffic. Messages on channel 0, which include those about time, don't count.
		c.times.ask.NoteTraffic()
	}
	violation := w.handleMessage(c, a, message)
	if h.reusable && len(message.Payload) > bunch.EntryBytes {
		c.machine.Reuse(&message)
	}
	if violation != nil {
		w.closeForViolation(c, violation)
	}
}

// handleMessage handles a message by its kind. a is the actor on the message's channel, or nil
// if there is none.
func (w *World) handleMessage(c *Conn, a *Actor, message bunch.Message) *CloseError {
	switch {
	case message.Delivery == bunch.Tracked && a != nil:
		c.copies.reps.packet = message.Number
		return w.applyUpdate(c, a, message)
	case message.Channel == 0:
		w.game.Doing = tasks.Doing{}
		return c.control(message.Payload)
	case c.server && (message.Open || message.Close && a != nil):
		return violationf(BunchWrongChannel, "channel %d opened or closed by the client; only the server may do that",
			message.Channel)
	case message.Open:
		return w.openActor(c, message)
	case a == nil && !message.Close:
		// The actor is closed, which the peer may not have known when it sent the message.
		c.drops.Add(drops.Closed, 1)
		return nil
	case a == nil:
		// This is the peer's answer to our own close, so there's nothing left to close.
		return nil
	case message.Close:
		return w.handleClose(c, a, message)
	}
	return w.invoke(c, a, message.Payload)
}

// closeForViolation logs that the peer has broken a rule, and closes the connection.
func (w *World) closeForViolation(c *Conn, cause *CloseError) {
	w.logs.LogJoined(slog.LevelWarn, logs.Violated, c.party(), "connection closed for a violation",
		"conn", c, "code", cause.Code.String(), "reason", cause.Reason)
	c.abort(cause)
}

// stateMethod is the id of the message by which the server sends the last state of an actor
// before it closes the channel.
const stateMethod = maxMethods + 1

// invoke handles a message for an actor. The message is usually a call, which invoke runs unless
// the call has to be dropped.
func (w *World) invoke(c *Conn, a *Actor, payload []byte) *CloseError {
	id, n := binary.Uvarint(payload)
	if n <= 0 {
		return violationf(PayloadFail, "call to a %q has no method id in its %s", a.class.name, words.Bytes(len(payload)))
	}
	payload = payload[n:]
	if id == ownerMethod && !c.server {
		return a.handleOwner(payload)
	}
	if id == stateMethod && !c.server {
		return w.applyLastState(c, a, payload)
	}
	if id >= uint64(len(a.class.methods)) {
		return violationf(UnknownMethod, "call names method %d of class %q, which has %s", id, a.class.name, words.Plural(len(a.class.methods), "method", "methods"))
	}
	m := a.class.methods[id]
	if c.server != (m.kind == serverRPC) {
		return violationf(WrongDirection, "%v is a %v RPC", m, m.kind)
	}
	w.logs.Received(c.callForLog(m, len(payload)), a)
	if m.role != isCall {
		return w.invokeRequest(c, a, m, payload)
	}
	if reason := w.admitCall(c, a, m); reason != drops.None {
		c.drop(reason, a, m)
		return nil
	}
	return w.runCall(c, a, m, 0, payload)
}

// runCall runs a call or question from the peer that admitCall has admitted. number is
// the number of a question, or 0 for a call.
//
// If the call had to wait for actors, its own actor may have ended since it was admitted.
func (w *World) runCall(c *Conn, a *Actor, m *method, number uint64, argument []byte) *CloseError {
	if a.dead {
		c.drop(drops.Closed, a, m)
		return nil
	}
	var q *question
	if number > 0 {
		running := w.background.jobs.Running(&c.requests.running, c.party())
		if c.requests.questions.Full() || running >= w.config.MaxRequests {
			w.dropQuestion(c, a, m, number, drops.Requests)
			return nil
		}
		q = &w.handling.question
		*q = question{conn: c, actor: a, method: m, number: number}
	}
	err := w.handle(c, a, m, q, argument)
	if q != nil && !c.server && invalid(err) {
		q.refuse(ask.Failed, err)
	}
	return w.violationOf(c, m, err)
}

// handle runs the handler of a call from the peer. q is the question if the call is a
// request, and nil otherwise.
func (w *World) handle(c *Conn, a *Actor, m *method, q *question, argument []byte) error {
	h := &w.handling
	h.call = Call{Actor: a, Conn: c, Now: w.frame.now, Arrived: h.arrived, question: q}
	w.game.Doing = tasks.Doing{Of: m}
	p := a.partOf(m.class)
	began := c.trace.Begin()
	err := p.binding.handlers[m.id].runRemote(p.object, &h.call, argument)
	h.reusable = m.arg == reflect.TypeFor[Raw]() && q == nil
	c.trace.Handled(m.name, a.class.name, uint64(a.ref), len(argument), began)
	return err
}

// admitCall returns why a call from the peer must be dropped, or drops.None. In the latter case, it
// has charged the call to its RateLimit. It decides before the argument is decoded.
func (w *World) admitCall(c *Conn, a *Actor, m *method) drops.Reason {
	p := a.partOf(m.class)
	switch {
	case a.dead:
		return drops.Closed
	case !p.bound() || !p.binding.handles(m):
		return drops.Unbound
	case c.server && a.conn != c && !m.anyCaller:
		return drops.NotOwner
	}
	if m.rateLimit > 0 && !c.chargeRateLimit(m) {
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

// chargeRateLimit charges the call that is being handled to the RateLimit of m. It returns false if
// the limit has been reached.
func (c *Conn) chargeRateLimit(m *method) bool {
	limit := c.limits[m]
	ok := limit.Allow(m.rateLimit, c.world.handling.arrived, c.world.frame.now)
	c.limits[m] = limit
	return ok
}

// callForLog describes a call of m for the log.
func (c *Conn) callForLog(m *method, bytes int) logs.Call {
	return logs.Call{
		Conn:     c,
		RPC:      m,
		Bytes:    bytes,
		Entries:  bunch.Entries(bytes),
		Reliable: m.delivery <= bunch.ReliableUnordered,
	}
}

// violationOf returns the violation, if any, behind an error from decoding or checking a call. An
// argument that can't be decoded is always a violation. A refused argument is a violation only if
// it came from a client. A client trusts its server, so violationOf just drops the call there.
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

// invalid reports whether a Validate or a Check has refused an argument with err.
func invalid(err error) bool {
	_, refused := errors.AsType[*validationError](err)
	return refused
}

// A localCall is a call that runs in the world that made it.
type localCall struct {
	actor    *Actor
	method   *method
	arg      any    // by value
	question uint64 // the number of the request's question; 0 if this isn't a request
}

// localCalls queues the calls that run in the world that made them. Only the world's
// goroutine may use it.
type localCalls struct {
	tasks.Queue[localCall]
	thisDispatch int // number of calls at the front that still run in this Dispatch
}

// add queues a call for the next Dispatch. It returns an error if limit calls are already
// waiting.
func (l *localCalls) add(call localCall, limit int) error {
	if waiting := l.Len() - l.thisDispatch; waiting >= limit {
		return errorf("rpc: %v not queued: %s waiting for a Dispatch; the limit is %d (Config.MaxLocalCalls): %w",
			call.method, words.Plural(waiting, "local call is", "local calls are"), limit, ErrBacklogFull)
	}
	l.Add(call)
	return nil
}

// runLocal runs all local calls that were queued before this Dispatch. Local calls that they make
// wait for the next Dispatch.
func (w *World) runLocal() {
	w.local.thisDispatch = w.local.Len()
	w.game.All(w.runNextLocal)
}

// runNextLocal runs the next local call of this Dispatch, and returns false if there is none. It
// removes the call from the queue first, so that a panic in the handler doesn't affect other calls.
func (w *World) runNextLocal() bool {
	if w.local.thisDispatch == 0 {
		return false
	}
	w.local.thisDispatch--
	l, _ := w.local.Take()
	p := l.actor.partOf(l.method.class)
	if l.actor.dead || !p.bound() {
		// The actor has ended, or its constructor hasn't returned an object.
		w.dropped.Add(1)
		return true
	}
	w.handling.call = Call{Actor: l.actor, Now: w.frame.now, Arrived: w.frame.now}
	w.game.Doing = tasks.Doing{Of: l.method}
	if l.method.role == isQuestion {
		w.runQuestionHere(l)
	} else {
		p.binding.handlers[l.method.id].runLocal(p.object, &w.handling.call, l.arg)
	}
	return true
}

const (
	// maxWaiting and maxWaitingBytes limit the number and the total size of the calls on a
	// connection that may wait for the actors that they name.
	maxWaiting      = 64
	maxWaitingBytes = 64 << 10

	// waitingTime is how long a call waits for its actors. Usually their opens are in flight, so
	// this allows for several retransmissions.
	waitingTime = 5 * time.Second
)

// waitingCalls are calls that a client has received before the actors that their arguments name
// were open (see WaitForActors). They are in order of arrival.
type waitingCalls struct {
	calls   []waitingCall
	bytes   int
	running bool // one of the calls is running after its wait, so it must not wait again
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

// refType is the type of references to actors, and references finds them in arguments.
var (
	refType    = reflect.TypeFor[Ref]()
	references = refs.Finder{Ref: refType, Actor: reflect.TypeFor[Actor]()}
)

// clearUnknown clears references in the argument at p to actors that Conn.Actor doesn't find, so
// that a client can't name actors that were never open for it. It returns the cleared references.
func (c *Conn) clearUnknown(p any) (unknown []Ref) {
	references.Each(reflect.ValueOf(p).Elem(), func(v reflect.Value) {
		if ref := Ref(v.Uint()); ref != 0 && c.Actor(ref) == nil {
			unknown = append(unknown, ref)
			v.SetUint(0)
		}
	})
	return unknown
}

// clearOrPostpone clears references to actors that aren't open in the argument at p. If the call
// has to wait for these actors, clearOrPostpone stores it in c.waiting and returns true.
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

	// The caller reuses the decoded argument, so keep the payload and decode it again later.
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
// such actor to the front, so that the next check finds it right away. This matters because a call
// may name 60,000 actors and is checked in every Dispatch.
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
