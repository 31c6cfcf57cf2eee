package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/codec"
)

// role says what a method is for in a request.
type role uint8

const (
	isCall role = iota
	isQuestion
	isAnswer
)

// requests are the open ones of a connection, or of a world that asks itself. They belong to the world's goroutine.
type requests struct {
	asked     ask.Table[*inquiry]  // by us
	questions ask.Table[*question] // by the peer, those whose answer takes time; of a world that asks itself, likewise
}

func newRequests(limit int) (r requests) {
	r.asked.SetLimit(limit)
	r.questions.SetLimit(limit)
	return r
}

// inquiry is a question of ours.
type inquiry struct {
	actor  *Actor
	method *method // of the question
	conn   *Conn   // nil: this world answers
	number uint64  // 0: not asked yet
	to     receiver
	waits  bool // to is a goroutine that waits, and no function of the game's
}

// receiver is who hears the answer: a hearer.
type receiver interface {
	read(c *Conn, payload []byte) error // a result from the wire
	take(result any)                    // a result of this world
	hear(err error)                     // the end: with the result that was read or taken, or an error
}

// failed is why an inquiry has no answer.
func (q *inquiry) failed(err error) error {
	var known *RequestError
	if errors.As(err, &known) {
		return known
	}
	return &RequestError{Request: q.method.String(), Text: err.Error(), cause: err}
}

// in returns the table that the inquiry stands in.
func (q *inquiry) in() *ask.Table[*inquiry] { return &q.actor.world.requestsOf(q.conn).asked }

// requestsOf returns the requests of a connection, or those of the world itself.
func (w *World) requestsOf(c *Conn) *requests {
	if c == nil {
		return &w.requests
	}
	return &c.requests
}

// place routes a question whose argument lies at p: sent at once to the far side, kept as a value for this side's next Dispatch.
func (w *World) place(q *inquiry, p any, until time.Time, keep func() any) error {
	a, m := q.actor, q.method
	plan, err := w.route(a, m)
	switch {
	case err != nil:
		return err
	case !plan.remote && !plan.local: // the owner is going
		return a.owner.closedFor(m)
	}
	if err := m.codec.Validate(p); err != nil {
		return &validationError{method: m, cause: err}
	}
	q.conn = plan.conn
	table, ok := q.in(), false
	if q.number, ok = table.Add(q, until); !ok {
		return fmt.Errorf("rpc: %v: %d requests are open, the limit is Config.MaxRequests: %w", m, table.Len(), ErrBacklogFull)
	}
	e := codec.NewEncoder()
	defer e.Release()
	if plan.remote || m.codec.Refuses() {
		e.Buf = ask.AppendQuestion(m.appendID(e.Buf), q.number)
		err = m.encodeValue(e, p)
	}
	switch {
	case err != nil:
	case plan.local:
		err = w.queueQuestion(q, keep())
	default:
		err = w.transmit(a, m, plan, e.Buf)
	}
	if err != nil {
		table.Take(q.number)
		q.number = 0
	}
	return err
}

// queueQuestion keeps a question that this world answers for the next Dispatch.
func (w *World) queueQuestion(q *inquiry, arg any) error {
	if err := w.queueLocal(q.actor, q.method, arg); err != nil {
		return err
	}
	w.local[len(w.local)-1].question = q.number
	return nil
}

// invokeRequest runs what the peer sent of a request.
func (w *World) invokeRequest(c *Conn, a *Actor, m *method, payload []byte) *CloseError {
	if m.role == isAnswer {
		return w.takeAnswer(c, a, m, payload)
	}
	number, cancel, argument, err := ask.ReadQuestion(payload)
	if err != nil {
		return violationf(PayloadFail, "%v: %v", m, err)
	}
	if cancel {
		w.cancelQuestion(c, a, m, number)
		return nil
	}
	if _, twice := c.requests.questions.Get(number); twice {
		return violationf(PayloadFail, "%v: question %d is asked twice", m, number)
	}
	if reason := w.refuse(c, a, m); reason != dropNone {
		w.dropQuestion(c, a, m, number, reason)
		return nil
	}
	return w.runQuestion(c, a, m, number, argument)
}

// dropQuestion counts a question that does not run, and says so to who asks.
func (w *World) dropQuestion(c *Conn, a *Actor, m *method, number uint64, reason dropReason) {
	c.drop(reason, a, m)
	if verdict, ok := verdictOf[reason]; ok {
		w.question = question{conn: c, actor: a, method: m, number: number}
		w.question.refuse(verdict, nil)
	}
}

// verdictOf is what who asks is told of a question that is dropped. Nobody is closed for one too many: the limits of both ends may
// differ, and a cancel on another actor's channel, which makes room, may still be under way.
var verdictOf = map[dropReason]ask.Verdict{
	dropUnbound: ask.Unbound, dropNotOwner: ask.NotOwner, dropRateLimited: ask.RateLimited, dropTooMany: ask.TooMany,
}

// runQuestion runs a question of the peer's that is not dropped.
func (w *World) runQuestion(c *Conn, a *Actor, m *method, number uint64, argument []byte) *CloseError {
	switch {
	case a.dead:
		c.drop(dropClosed, a, m)
		return nil
	case c.requests.questions.Full():
		w.dropQuestion(c, a, m, number, dropTooMany)
		return nil
	}
	w.question = question{conn: c, actor: a, method: m, number: number}
	w.call, w.doing = Call{Actor: a, Conn: c, Now: w.now, Arrived: w.arrived, question: &w.question}, activity{method: m}
	p := a.part(m.class)
	began := c.trace.Begin()
	err := p.binding.handlers[m.id].remote(p.object, &w.call, argument)
	c.trace.Handled(m.label, a.class.name, uint64(a.ref), len(argument), began)
	if !c.server && invalid(err) {
		w.question.refuse(ask.Failed, err)
	}
	return w.judge(c, m, err)
}

// runQuestionHere runs a question that this world asked itself.
func (w *World) runQuestionHere(l localCall) {
	if _, open := w.requests.asked.Get(l.question); !open {
		return // nobody waits any more
	}
	w.question = question{actor: l.actor, method: l.method, number: l.question}
	w.call.question = &w.question
	defer w.question.missing()
	p := l.actor.part(l.method.class)
	p.binding.handlers[l.method.id].local(p.object, &w.call, l.arg)
	w.question.said.Store(true)
}

// takeAnswer takes the peer's answer to a question of ours. One that is late, comes twice, or is for no question, is dropped and counted.
func (w *World) takeAnswer(c *Conn, a *Actor, m *method, payload []byte) *CloseError {
	answer, err := ask.ReadAnswer(payload)
	if err != nil {
		return violationf(PayloadFail, "%v: %v", m, err)
	}
	q, ok := c.requests.asked.Get(answer.Number)
	if !ok || q.actor != a || q.method != m.pair {
		c.drop(dropAnswer, a, m)
		return nil
	}
	if answer.Verdict == ask.Answered {
		if err = q.to.read(c, answer.Result); err != nil && (c.server || !invalid(err)) {
			return w.judge(c, m, err) // which closes; the question ends with the connection
		}
	} else {
		err = q.verdict(answer)
	}
	c.requests.asked.Take(answer.Number)
	w.doing = activity{what: "the function for the answer of ", method: q.method}
	if invalid(err) {
		c.drop(dropInvalid, a, m)
		err = q.failed(err)
	}
	q.to.hear(err)
	return nil
}

// giveUp ends a question of ours for which nobody waits any more, and tells the far side.
func (w *World) giveUp(q *inquiry) {
	if q.number == 0 {
		return // it was not asked
	}
	if _, open := q.in().Take(q.number); !open {
		w.unheard(q.conn) // the answer came first, and nobody heard it
		return
	}
	w.tellCanceled(q)
}

// tellCanceled tells who is to answer that nobody waits.
func (w *World) tellCanceled(q *inquiry) {
	if q.conn == nil {
		if theirs, ok := w.requests.questions.Take(q.number); ok {
			theirs.end(errCanceled)
		}
		return
	}
	if o := q.actor.find(q.conn); o != nil && q.conn.usable() {
		e := codec.NewEncoder()
		defer e.Release()
		e.Buf = ask.AppendCancel(q.method.appendID(e.Buf), q.number)
		if err := q.actor.send(o, q.method, e.Buf); err != nil {
			w.callFailed(q.method, err)
		}
	}
}

// cancelQuestion ends a question of the peer's. One that is answered already is no error: the two crossed.
func (w *World) cancelQuestion(c *Conn, a *Actor, m *method, number uint64) {
	q, ok := c.requests.questions.Get(number)
	if ok && q.actor == a && q.method == m {
		c.requests.questions.Take(number)
		q.end(errCanceled)
		return
	}
	c.waiting.cancel(a, m, number)
}

// expireRequests ends the questions of ours whose time is over, and in a world that is closed those that it asked itself.
func (w *World) expireRequests() {
	w.expire(&w.requests)
	for _, c := range w.conns {
		w.expire(&c.requests)
	}
	if w.requests.asked.Len() > 0 {
		if cause := w.shutCause(); cause != nil {
			w.requests.end(nil, cause)
		}
	}
}

func (w *World) expire(r *requests) {
	if r.asked.Len() == 0 {
		return
	}
	now := time.Now()
	for q, due := r.asked.TakeDue(now); due; q, due = r.asked.TakeDue(now) {
		w.tellCanceled(q)
		if q.waits {
			q.end(context.DeadlineExceeded) // of its context
		} else {
			q.end(w.timeUp())
		}
	}
}

// timeUp says that nobody answered in time.
func (w *World) timeUp() error {
	return fmt.Errorf("no answer came within %v, see Config.RequestTime: %w", w.config.requestTime(), context.DeadlineExceeded)
}

// end ends an inquiry without an answer. A function of the game runs as a task: this may be in the middle of another.
func (q *inquiry) end(cause error) {
	w := q.actor.world
	err := q.failed(cause)
	if q.waits {
		q.to.hear(err)
		return
	}
	w.later(q.conn, activity{what: "the function for the answer of ", method: q.method}, func() { q.to.hear(err) })
	w.signal()
}

// end ends all requests of an actor, or of all (nil).
func (r *requests) end(a *Actor, cause error) {
	ours := func(q *inquiry) bool { return a == nil || q.actor == a }
	for q, ok := r.asked.TakeIf(ours); ok; q, ok = r.asked.TakeIf(ours) {
		q.end(cause)
	}
	theirs := func(q *question) bool { return a == nil || q.actor == a }
	for q, ok := r.questions.TakeIf(theirs); ok; q, ok = r.questions.TakeIf(theirs) {
		q.end(cause)
	}
}

// holds reports whether requests of an actor are open.
func (r *requests) holds(a *Actor) bool {
	return r.asked.Any(func(q *inquiry) bool { return q.actor == a }) ||
		r.questions.Any(func(q *question) bool { return q.actor == a })
}

// endOf ends the requests of an actor that ends, or whose channel closes.
func (r *requests) endOf(a *Actor, reason CloseReason) {
	switch {
	case r.asked.Len()+r.questions.Len() == 0:
	case reason == Dormancy:
		r.end(a, fmt.Errorf("%v fell asleep: %w", a, ErrDormant))
	default:
		r.end(a, fmt.Errorf("%v ended here, or its channel closed (%v): %w", a, reason, ErrClosed))
	}
}

// question is one that this side answers.
type question struct {
	conn   *Conn // nil: this world asked
	actor  *Actor
	method *method
	number uint64
	kept   *question   // the one that outlives the handler, see Later
	said   atomic.Bool // it is answered, or Later's function was called

	ctx    context.Context // nil until Call.Context makes it
	cancel context.CancelCauseFunc
}

// Causes of the context of a question that ends.
var (
	errCanceled = errors.New("rpc: nobody waits for the answer any more")
	errAnswered = errors.New("rpc: the answer is given")
)

// Context returns, in the handler of a [Request], a context that ends when nobody waits for the answer any more: it was canceled,
// its time is over, the actor or the connection ended; or when the answer was given. It may be kept. In all other calls it never ends.
func (c *Call) Context() context.Context {
	q := c.question
	if q == nil {
		return context.Background()
	}
	if q.kept != nil {
		q = q.kept
	}
	if q.ctx == nil {
		q.ctx, q.cancel = context.WithCancelCause(context.Background())
	}
	return q.ctx
}

// keep files the question that the running handler answers later.
func (q *question) keep() {
	kept := &question{conn: q.conn, actor: q.actor, method: q.method, number: q.number, ctx: q.ctx, cancel: q.cancel}
	q.kept = kept
	kept.actor.world.requestsOf(q.conn).questions.Put(q.number, kept)
}

// leave ends what the handler leaves behind that has returned, or has not.
func (q *question) leave() {
	if q.kept == nil {
		q.end(errAnswered)
	}
}

func (q *question) end(cause error) {
	if q.cancel != nil {
		q.cancel(cause)
	}
}

// resume takes a question back that can be answered now, and reports whether anybody waits for that.
func (w *World) resume(q *question) bool {
	theirs := &w.requestsOf(q.conn).questions
	if open, ok := theirs.Get(q.number); !ok || open != q {
		w.unheard(q.conn)
		return false
	}
	theirs.Take(q.number)
	q.end(errAnswered)
	return true
}

// unheard counts an answer for which nobody waits.
func (w *World) unheard(c *Conn) {
	if c == nil {
		w.dropped.Add(1)
		return
	}
	c.drops[dropAnswer].Add(1)
}

// answerHere gives the answer to a question that this world asked itself, as a task.
func (w *World) answerHere(q *question, result any) {
	asked, ok := w.requests.asked.Take(q.number)
	if !ok {
		w.unheard(nil)
		return
	}
	asked.to.take(result)
	if asked.waits {
		asked.to.hear(nil)
		return
	}
	w.later(nil, activity{what: "the function for the answer of ", method: asked.method}, func() { asked.to.hear(nil) })
	w.signal()
}

// send answers the peer.
func (q *question) send(answer []byte) error {
	o := q.actor.find(q.conn)
	if o == nil {
		q.actor.world.unheard(q.conn)
		return nil
	}
	return q.actor.send(o, q.method.pair, answer)
}

// refuse answers with an error.
func (q *question) refuse(v ask.Verdict, cause error) {
	w, m := q.actor.world, q.method.pair
	answer := ask.Answer{Number: q.number, Verdict: v}
	if cause != nil {
		var own *RequestError
		if answer.Text = cause.Error(); errors.As(cause, &own) {
			answer.Code, answer.Text = own.Code, own.Text
		}
		answer.Text = ask.Cut(answer.Text)
	}
	if q.conn == nil {
		if asked, ok := w.requests.asked.Take(q.number); ok {
			asked.end(asked.verdict(answer))
		}
		return
	}
	e := codec.NewEncoder()
	defer e.Release()
	if e.Buf = m.appendID(e.Buf); v == ask.Refused || v == ask.Failed {
		e.Buf = ask.AppendError(e.Buf, q.number, v, answer.Code, answer.Text)
	} else {
		e.Buf = ask.AppendAnswer(e.Buf, q.number, v)
	}
	if err := q.send(e.Buf); err != nil {
		w.unheard(q.conn)
		w.callFailed(m, err)
	}
}

// unsaid tells both ends that an answer can not travel.
func (q *question) unsaid(err error) {
	q.actor.world.callFailed(q.method.pair, err)
	q.refuse(ask.Failed, err)
}

// missing ends the question of a handler in this world that panicked.
func (q *question) missing() {
	if !q.said.Load() && q.kept == nil {
		q.refuse(ask.Failed, errors.New("the handler did not return"))
	}
}

// RequestError says why a [Request] has no answer. What it wraps tells the cause:
//
//	context.DeadlineExceeded    nobody answered in time
//	context.Canceled            the context of Ask was canceled
//	ErrClosed, a *CloseError    the connection ended, or the world was closed
//	ErrClosed                   the actor ended, or its channel closed
//	ErrDormant                  the actor sleeps
//	ErrBacklogFull              Config.MaxRequests are open, here or there
//	ErrUnbound                  nothing answers it, here or there
//	ErrNotOwner                 who asked does not own the actor, or did not by the time it arrived
//	none, with Refused          the handler's error
//	none, with RateLimited      asked more often than RateLimit on the declaration allows
//
// A handler returns one to choose the Code.
type RequestError struct {
	Request     string // what was asked, "Class.Name"
	Code        uint32 // the game's own, of the handler's error; 0 when that was no *RequestError
	Text        string // why: the handler's own words, valid UTF-8, at most 512 bytes
	Refused     bool   // the handler answered with this error
	RateLimited bool
	cause       error
}

func (e *RequestError) Error() string {
	switch {
	case e.Refused && e.Code != 0:
		return fmt.Sprintf("rpc: %s refused with code %d: %s", e.Request, e.Code, e.Text)
	case e.Refused:
		return fmt.Sprintf("rpc: %s refused: %s", e.Request, e.Text)
	}
	return fmt.Sprintf("rpc: %s has no answer: %s", e.Request, e.Text)
}

func (e *RequestError) Unwrap() error { return e.cause }

// verdict is the error of an answer that is one.
func (q *inquiry) verdict(a ask.Answer) error {
	e := &RequestError{Request: q.method.String(), Code: a.Code, Text: a.Text}
	switch a.Verdict {
	case ask.Refused:
		e.Refused = true
	case ask.Unbound:
		e.Text, e.cause = "nothing answers it on the other side", ErrUnbound
	case ask.NotOwner:
		e.Text, e.cause = "this side did not own the actor when it arrived", ErrNotOwner
	case ask.RateLimited:
		e.Text, e.RateLimited = fmt.Sprintf("it was asked more often than RateLimit(%v) allows", q.method.rateLimit), true
	case ask.TooMany:
		e.Text, e.cause = "the other side has as many open as its Config.MaxRequests allows", ErrBacklogFull
	}
	return e
}
