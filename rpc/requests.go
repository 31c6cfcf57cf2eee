package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/tasks"
)

// role is a method's part in a request.
type role uint8

const (
	isCall role = iota // none: the method is an RPC
	isQuestion
	isAnswer
)

// requests are the open requests of a connection, or of a world that asks itself. They are
// used only by the world's goroutine.
type requests struct {
	asked     ask.Table[*inquiry]  // questions that this side has asked
	questions ask.Table[*question] // questions that this side will answer later
	running   budget.ConnJobs      // handlers of Request.Go, including those of canceled questions
}

func newRequests(limit int) (r requests) {
	r.asked.SetLimit(limit)
	r.questions.SetLimit(limit)
	return r
}

// An inquiry is a question that this side asks.
type inquiry struct {
	actor  *Actor
	method *method       // of the question
	conn   *Conn         // nil = this world answers
	number uint64        // 0 = not asked yet
	limit  time.Duration // of ThenWithin; 0 = Config.RequestTime, or the context of Ask
	to     receiver      // gets the answer
	waits  bool          // a goroutine in Ask waits; otherwise a function of the game is called
}

// receiver gets the answer to a question from this side. It is a
// *hearer without its type parameter.
type receiver interface {
	read(c *Conn, payload []byte) error // decodes a result from the peer
	take(result any)                    // stores a result from this world
	hear(err error)                     // ends the request with the stored result, or with err
}

// failed returns err as the RequestError of an inquiry.
func (q *inquiry) failed(err error) error {
	if known, ok := errors.AsType[*RequestError](err); ok {
		return known
	}
	name := q.method.String()
	return &RequestError{Request: name, Text: strings.TrimPrefix(unprefixed{err}.Error(), name+": "), cause: err}
}

// in returns the table that the inquiry is in.
func (q *inquiry) in() *ask.Table[*inquiry] { return &q.actor.world.requestsOf(q.conn).asked }

// requestsOf returns the requests of a connection, or those of the world itself.
func (w *World) requestsOf(c *Conn) *requests {
	if c == nil {
		return &w.requests
	}
	return &c.requests
}

// place routes a question whose argument is at p, and carries out its plan. The inquiry ends
// at until. A zero until means no limit.
func (w *World) place(q *inquiry, p any, until time.Time, keep func() any) error {
	a := q.actor
	m := q.method
	plan, err := w.route(a, m)
	switch {
	case err != nil:
		return err
	case !plan.remote && !plan.local: // the owner's connection is ending
		return a.conn.closedFor(m)
	}
	if err := m.validate(p); err != nil {
		return err
	}
	q.conn = plan.conn
	table := q.in()
	number, ok := table.Add(q, until)
	if !ok {
		return errorf("rpc: %v: %d requests are open, the limit is Config.MaxRequests: %w",
			m, table.Len(), ErrBacklogFull)
	}
	q.number = number
	err = plan.carry(a, m, q.number, p, keep)
	if err != nil {
		table.Take(q.number)
		q.number = 0
	}
	return err
}

// invokeRequest handles a question, a cancel or an answer from the peer.
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
	if _, runs := c.requests.questions.Get(number); runs || c.waiting.asks(number) {
		return violationf(PayloadFail, "%v: question %d is asked twice", m, number)
	}
	if reason := w.dropReason(c, a, m); reason != drops.None {
		w.dropQuestion(c, a, m, number, reason)
		return nil
	}
	return w.run(c, a, m, number, argument)
}

// takeAnswer handles the peer's answer to a question from this side. An answer that is late,
// arrives twice or matches no question is dropped and counted.
func (w *World) takeAnswer(c *Conn, a *Actor, m *method, payload []byte) *CloseError {
	answer, err := ask.ReadAnswer(payload)
	if err != nil {
		return violationf(PayloadFail, "%v: %v", m, err)
	}
	q, ok := c.requests.asked.Get(answer.Number)
	if !ok || q.actor != a || q.method != m.pair {
		c.drop(drops.Answer, a, m)
		return nil
	}
	if answer.Verdict == ask.Answered {
		if err = q.to.read(c, answer.Result); err != nil && (c.server || !invalid(err)) {
			return w.violationOf(c, m, err) // closes the connection, and the question ends with it
		}
	} else {
		err = q.verdict(answer)
	}
	if _, open := c.requests.asked.Take(answer.Number); !open {
		return nil // the game's own decoding or Validate ended the actor, and the question with it
	}
	w.game.Doing = tasks.Doing{What: "the function for the answer of ", Of: q.method}
	if invalid(err) {
		c.drop(drops.Invalid, a, m)
		err = q.failed(err)
	}
	q.to.hear(err)
	return nil
}

// giveUp ends an inquiry whose asker no longer waits, and tells the other end.
func (w *World) giveUp(q *inquiry) {
	if q.number == 0 {
		return // it was not asked
	}
	if _, open := q.in().Take(q.number); !open {
		w.countUnheard(q.conn) // the answer arrived just before
		return
	}
	w.tellCanceled(q)
}

// tellCanceled tells the end that should answer that nobody waits any more.
func (w *World) tellCanceled(q *inquiry) {
	if q.conn == nil {
		if theirs, ok := w.requests.questions.Take(q.number); ok {
			theirs.end(errCanceled)
		}
		return
	}
	if o := q.actor.openingOn(q.conn); o != nil && q.conn.usable() {
		e := codec.NewEncoder()
		defer e.Release()
		e.Buf = ask.AppendCancel(q.method.appendID(e.Buf), q.number)
		if err := q.actor.send(o, q.method, e.Buf); err != nil {
			w.logUnsent(q.method, err)
		}
	}
}

// expireOwn is called in Dispatch. It ends the world's inquiries to itself whose time is
// over. In a closed world it ends all of them.
func (w *World) expireOwn() {
	w.expire(&w.requests)
	if w.requests.asked.Len() > 0 {
		if cause := w.lobby.cause(); cause != nil {
			w.requests.end(nil, cause)
		}
	}
}

// expire is called in Dispatch. It ends the inquiries whose time is over.
func (w *World) expire(r *requests) {
	if r.asked.Len() == 0 {
		return
	}
	now := time.Now()
	for q, due := r.asked.TakeDue(now); due; q, due = r.asked.TakeDue(now) {
		w.tellCanceled(q)
		q.end(w.timeUp(q.limit))
	}
}

// timeUp returns the error of an inquiry that was not answered in
// time. A limit of 0 means Config.RequestTime.
func (w *World) timeUp(limit time.Duration) error {
	if limit > 0 {
		return fmt.Errorf("no answer came within %v: %w", limit, context.DeadlineExceeded)
	}
	return fmt.Errorf("no answer came within %v, see Config.RequestTime: %w",
		w.config.RequestTime, context.DeadlineExceeded)
}

// end ends an inquiry without an answer.
func (q *inquiry) end(cause error) { q.tell(q.failed(cause)) }

// tell reports the end of the inquiry to the asker, which is a goroutine in
// Ask or a function passed to Then. That function runs as a task, because
// another function of the game may be running.
func (q *inquiry) tell(err error) {
	w := q.actor.world
	if q.waits {
		q.to.hear(err)
		return
	}
	doing := tasks.Doing{What: "the function for the answer of ", Of: q.method}
	w.game.Later(q.conn, doing, func() { q.to.hear(err) })
	w.drive.Signal()
}

// end ends all requests of an actor. If a is nil, it ends the requests of all actors.
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

// holds reports whether the actor has an open request.
func (r *requests) holds(a *Actor) bool {
	return r.asked.Any(func(q *inquiry) bool { return q.actor == a }) ||
		r.questions.Any(func(q *question) bool { return q.actor == a })
}

// endOf ends the requests of an actor that ends or whose channel closes.
func (r *requests) endOf(a *Actor, reason CloseReason) {
	switch {
	case r.asked.Len()+r.questions.Len() == 0:
	case reason == Dormancy:
		r.end(a, fmt.Errorf("%v fell asleep: %w", a, ErrDormant))
	default:
		r.end(a, fmt.Errorf("%v ended here, or its channel closed (%v): %w", a, reason, ErrClosed))
	}
}

// verdict returns the error for an answer whose verdict is not Answered.
func (q *inquiry) verdict(a ask.Answer) error {
	e := &RequestError{Request: q.method.String(), Code: a.Code, Text: a.Text}
	switch a.Verdict {
	case ask.Refused:
		e.Refused = true
		e.cause = q.method.class.errorOf(a.Code)
	case ask.Unbound:
		e.Text = "nothing answers it on the other side"
		e.cause = ErrUnbound
	case ask.NotOwner:
		e.Text = "this side did not own the actor when it arrived"
		e.cause = ErrNotOwner
	case ask.RateLimited:
		e.Text = fmt.Sprintf("it was asked more often than RateLimit(%v) allows", q.method.rateLimit)
		e.RateLimited = true
	case ask.Blocked:
		e.Text = "it was asked more often than the other side's Config.DoS lets run for now"
		e.RateLimited = true
	case ask.TooMany:
		e.Text = "the other side has as many open as its Config.MaxRequests allows"
		e.cause = ErrBacklogFull
	}
	return e
}
