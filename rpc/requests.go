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
	"github.com/quivernet/quiver/internal/words"
)

// A role is the part that a method plays in a request.
type role uint8

const (
	isCall role = iota // the method is an RPC, not a part of a request
	isQuestion
	isAnswer
)

// requests are the open requests of one connection, in both directions, or a world's open requests
// to itself. They are used only by the world's goroutine.
type requests struct {
	asked     ask.Table[*inquiry]  // questions that we have asked
	questions ask.Table[*question] // the peer's questions that we are going to answer later
	running   budget.ConnJobs      // handlers of Request.Go, including those of canceled questions
}

func newRequests(limit int) (r requests) {
	r.asked.SetLimit(limit)
	r.questions.SetLimit(limit)
	return r
}

// An inquiry is a question that we ask, until its request ends.
type inquiry struct {
	actor    *Actor
	method   *method       // the question
	conn     *Conn         // nil if this world answers
	number   uint64        // 0 until it is asked
	limit    time.Duration // from ThenWithin; 0 if Config.RequestTime or the context of Ask applies
	handler  answerHandler
	blocking bool // a goroutine in Ask is waiting; otherwise the request was made by Then
}

// An answerHandler gets the answer to one of our questions. It is a *typedHandler without its
// type parameter.
type answerHandler interface {
	decode(c *Conn, payload []byte) error // stores a result from the peer
	store(result any)                     // stores a result from this world
	finish(err error)                     // ends the request with the stored result, or with err
}

// failed returns err as a RequestError, with the name of the request.
func (q *inquiry) failed(err error) error {
	if known, ok := errors.AsType[*RequestError](err); ok {
		return known
	}
	name := q.method.String()
	return &RequestError{Request: name, Text: strings.TrimPrefix(unprefixed{err}.Error(), name+": "), cause: err}
}

// table returns the table that lists the inquiry while it is open.
func (q *inquiry) table() *ask.Table[*inquiry] { return &q.actor.world.requestsOf(q.conn).asked }

// requestsOf returns the requests of a connection, or the world's own if c is nil.
func (w *World) requestsOf(c *Conn) *requests {
	if c == nil {
		return &w.requests
	}
	return &c.requests
}

// askQuestion routes and sends a question. p points to its argument. The inquiry ends at until,
// unless until is zero.
func (w *World) askQuestion(q *inquiry, p any, until time.Time, keep func() any) error {
	a := q.actor
	m := q.method
	plan, err := w.route(a, m)
	switch {
	case err != nil:
		return err
	case !plan.remote && !plan.local:
		// The owner's connection is closing or has ended. An RPC would be dropped and counted, but
		// a question needs an answer.
		return a.conn.closedFor(m)
	}
	if err := m.validate(p); err != nil {
		return err
	}

	// List the inquiry first, because the question carries its number.
	q.conn = plan.conn
	table := q.table()
	number, ok := table.Add(q, until)
	if !ok {
		return errorf("rpc: %v: %s open; the limit is %d (Config.MaxRequests): %w",
			m, words.Plural(table.Len(), "request is", "requests are"), w.config.MaxRequests, ErrBacklogFull)
	}
	q.number = number
	err = plan.carryOut(a, m, q.number, p, keep)
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
	if _, runs := c.requests.questions.Get(number); runs || c.waiting.hasQuestion(number) {
		return violationf(PayloadFail, "%v: question %d asked twice", m, number)
	}
	if reason := w.admitCall(c, a, m); reason != drops.None {
		w.dropQuestion(c, a, m, number, reason)
		return nil
	}
	return w.runCall(c, a, m, number, argument)
}

// takeAnswer handles the peer's answer to one of our questions. Answers that are late, duplicate or
// match no question are dropped and counted.
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
		if err = q.handler.decode(c, answer.Result); err != nil && (c.server || !invalid(err)) {
			// This closes the connection, which also ends the request.
			return w.violationOf(c, m, err)
		}
	} else {
		err = q.errorFor(answer)
	}
	if _, open := c.requests.asked.Take(answer.Number); !open {
		// The game's own UnmarshalBinary or Validate has ended the actor, and the request with it.
		return nil
	}
	w.game.Doing = q.doing()
	if invalid(err) {
		c.drop(drops.Invalid, a, m)
		err = q.failed(err)
	}
	q.handler.finish(err)
	return nil
}

// giveUp cancels an inquiry when the goroutine in Ask no longer waits for its answer.
func (w *World) giveUp(q *inquiry) {
	if q.number == 0 {
		return // it was never asked
	}
	if _, open := q.table().Take(q.number); !open {
		// The answer arrived just before, but nobody will read it.
		w.countUnheard(q.conn)
		return
	}
	w.tellCanceled(q)
}

// tellCanceled tells the side that should answer an inquiry that nobody is waiting for the answer
// any longer.
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

// expireOwn is like expire, but for the world's inquiries to itself. If the world is closed, it
// ends all of them.
func (w *World) expireOwn() {
	w.expire(&w.requests)
	if w.requests.asked.Len() > 0 {
		if cause := w.lobby.cause(); cause != nil {
			w.requests.end(nil, cause)
		}
	}
}

// expire is called in Dispatch to end the inquiries that have timed out.
func (w *World) expire(r *requests) {
	if r.asked.Len() == 0 {
		return // the usual case, in which reading the clock is a waste
	}
	now := time.Now()
	for q, due := r.asked.TakeDue(now); due; q, due = r.asked.TakeDue(now) {
		w.tellCanceled(q)
		q.end(w.timeUp(q.limit))
	}
}

// timeUp returns the error for an inquiry that got no answer within limit, or within
// Config.RequestTime if limit is 0.
func (w *World) timeUp(limit time.Duration) error {
	if limit > 0 {
		return fmt.Errorf("timed out after %v: %w", limit, context.DeadlineExceeded)
	}
	return fmt.Errorf("timed out after %v (Config.RequestTime): %w",
		w.config.RequestTime, context.DeadlineExceeded)
}

// end ends an inquiry without an answer.
func (q *inquiry) end(cause error) { q.notify(q.failed(cause)) }

// notify tells the asker, a goroutine in Ask or the function passed to Then, that the inquiry has
// ended.
func (q *inquiry) notify(err error) {
	w := q.actor.world
	if q.blocking {
		q.handler.finish(err)
		return
	}

	// Another function of the game may be running, so this one has to run later, as a task.
	w.game.Later(q.conn, q.doing(), func() { q.handler.finish(err) })
	w.drive.Signal()
}

// doing names the game's function that gets the answer.
func (q *inquiry) doing() tasks.Doing {
	return tasks.Doing{What: "the function for the answer of ", Of: q.method}
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

// hasOpen reports whether an actor has an open request.
func (r *requests) hasOpen(a *Actor) bool {
	return r.asked.Any(func(q *inquiry) bool { return q.actor == a }) ||
		r.questions.Any(func(q *question) bool { return q.actor == a })
}

// endOf ends the requests of an actor that is ending or whose channel is closing.
func (r *requests) endOf(a *Actor, reason CloseReason) {
	if r.asked.Len()+r.questions.Len() == 0 {
		return // the usual case, in which the errors below are a waste
	}
	cause := errorf("%v ended or its channel closed (%v): %w", a, reason, ErrClosed)
	if reason == Dormancy {
		cause = errorf("%v went dormant: %w", a, ErrDormant)
	}
	r.end(a, cause)
}

// errorFor returns the error for an answer whose verdict is not Answered.
func (q *inquiry) errorFor(a ask.Answer) error {
	e := &RequestError{Request: q.method.String(), Code: a.Code, Text: a.Text}
	switch a.Verdict {
	case ask.Refused:
		e.Refused = true
		e.cause = q.method.class.errorOf(a.Code)
	case ask.Unbound:
		e.Text = "the other side has no handler for it"
		e.cause = ErrUnbound
	case ask.NotOwner:
		e.Text = "this side did not own the actor when the question arrived"
		e.cause = ErrNotOwner
	case ask.RateLimited:
		e.Text = fmt.Sprintf("asked more often than RateLimit(%v) allows", q.method.rateLimit)
		e.RateLimited = true
	case ask.Blocked:
		e.Text = "asked more often than the other side's Config.DoS currently allows"
		e.RateLimited = true
	case ask.TooMany:
		e.Text = "the other side has reached its limit of open requests (Config.MaxRequests)"
		e.cause = ErrBacklogFull
	}
	return e
}
