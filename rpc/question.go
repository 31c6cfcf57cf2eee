package rpc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/tasks"
)

// A question is a request as seen by the side that answers it. To the side that asks, the request
// is an inquiry.
//
// A question is used only by the world's goroutine, except for answered.
type question struct {
	conn   *Conn // the asker's connection; nil if this world has asked itself
	actor  *Actor
	method *method
	number uint64 // the asker's number for the question

	// The copy that will be answered later, set by postpone while the handler runs. A copy is
	// needed because the next question overwrites the original, World.handling.question.
	postponed *question

	answered atomic.Bool // set when the answer is given, or handed to the world's goroutine

	ctx    context.Context // made by the first call of Call.Context
	cancel context.CancelCauseFunc
}

// Causes for the end of a question's context.
var (
	errCanceled = errors.New("rpc: the asker is no longer waiting for the answer")
	errAnswered = errors.New("rpc: the request was answered")
)

// A background manages the handlers that [Request.Go] runs on goroutines of their own.
type background struct {
	jobs budget.Jobs // counts the running handlers by asker

	mu      sync.Mutex // guards the fields below
	running int
	idle    chan struct{} // closed when no handler is running; nil if nobody is waiting
}

// start is called on the world's goroutine to run a handler on a new goroutine. The handler
// counts as running until the asker has been given its answer, or the world is closed.
func (b *background) start(q *question, run func()) {
	w := q.actor.world
	from := w.requestsOf(q.conn)
	b.jobs.Start(&from.running)
	b.count(1)
	go func() {
		defer b.count(-1)
		defer b.finish(w, from)
		defer w.catch(q.conn, tasks.Doing{What: "the handler of ", Of: q.method})
		run()
	}()
}

// finish has the world's goroutine count a job as finished, and waits until it has done so or the
// world is closed.
func (b *background) finish(w *World, from *requests) {
	// The answer was posted before the following function, so it has been sent when that function
	// runs.
	counted := make(chan struct{})
	w.postUnlimited(func() {
		b.jobs.Done(&from.running)
		close(counted)
	})
	select {
	case <-counted:
	case <-w.lobby.shut:
	}
}

// count adds n, which may be negative, to the number of running handlers. If no handler is left,
// it releases wait. It is safe for concurrent use.
func (b *background) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running += n
	if b.running == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// wait waits until no handler is running. If ctx ends first, it returns the cause of ctx.
func (b *background) wait(ctx context.Context) error {
	b.mu.Lock()
	if b.running > 0 && b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return nil
	}
	return waitFor(ctx, idle)
}

// postpone makes a copy of the question that is being handled, to be answered after the handler
// has returned.
func (q *question) postpone() {
	later := &question{
		conn:   q.conn,
		actor:  q.actor,
		method: q.method,
		number: q.number,
		ctx:    q.ctx,
		cancel: q.cancel,
	}
	q.postponed = later
	later.actor.world.requestsOf(q.conn).questions.Put(q.number, later)
}

// claimAnswer claims the right to answer a postponed question, which can be answered only once. If
// the question has already been answered, claimAnswer counts the new answer as dropped and returns
// false. It is safe for concurrent use.
func (q *question) claimAnswer() bool {
	if q.answered.CompareAndSwap(false, true) {
		return true
	}
	q.actor.world.countUnheard(q.conn)
	return false
}

// handlerReturned is called when the handler has returned or panicked. It ends the question's
// context, unless the answer was postponed.
func (q *question) handlerReturned() {
	if q.postponed == nil {
		q.end(errAnswered)
	}
}

// end cancels the context, if Call.Context has made one.
func (q *question) end(cause error) {
	if q.cancel != nil {
		q.cancel(cause)
	}
}

// takePostponed removes a postponed question from the table, so that it can be answered. If
// nobody is waiting for the answer any longer, it counts the answer as dropped and returns false.
func (w *World) takePostponed(q *question) bool {
	theirs := &w.requestsOf(q.conn).questions
	if open, ok := theirs.Get(q.number); !ok || open != q {
		w.countUnheard(q.conn)
		return false
	}
	theirs.Take(q.number)
	q.end(errAnswered)
	return true
}

// countUnheard counts an answer that nobody is waiting for. c is the asker's connection, or nil
// for this world.
func (w *World) countUnheard(c *Conn) {
	if c == nil {
		w.dropped.Add(1)
		return
	}
	c.drops.Add(drops.Answer, 1)
}

// answerHere passes an answer to an asker in this world.
func (w *World) answerHere(q *question, result any) {
	asked, ok := w.requests.asked.Take(q.number)
	if !ok {
		w.countUnheard(nil)
		return
	}
	asked.handler.store(result)
	asked.notify(nil)
}

// send sends an answer to the peer. If the actor's channel has closed, nobody is waiting for the
// answer, so send counts it as dropped.
func (q *question) send(answer []byte) error {
	o := q.actor.openingOn(q.conn)
	if o == nil {
		q.actor.world.countUnheard(q.conn)
		return nil
	}
	return q.actor.send(o, q.method.pair, answer)
}

// refuse answers a question with an error verdict. If there's a cause, the asker gets its text.
func (q *question) refuse(v ask.Verdict, cause error) {
	w := q.actor.world
	answer := q.refusal(v, cause)
	if q.conn == nil {
		if asked, ok := w.requests.asked.Take(q.number); ok {
			asked.end(asked.errorFor(answer))
		}
		return
	}
	m := q.method.pair
	e := codec.NewEncoder()
	defer e.Release()
	e.Buf = m.appendID(e.Buf)
	if v == ask.Refused || v == ask.Failed {
		e.Buf = ask.AppendError(e.Buf, q.number, v, answer.Code, answer.Text)
	} else {
		// The other verdicts are sent without code and text.
		e.Buf = ask.AppendAnswer(e.Buf, q.number, v)
	}
	if err := q.send(e.Buf); err != nil {
		w.countUnheard(q.conn)
		w.logUnsent(m, err)
	}
}

// refusal returns the answer for a verdict and its cause, which may be nil.
func (q *question) refusal(v ask.Verdict, cause error) ask.Answer {
	answer := ask.Answer{Number: q.number, Verdict: v}
	if cause == nil {
		return answer
	}
	answer.Code = q.method.class.codeOf(cause)
	answer.Text = cause.Error()
	if own, ok := errors.AsType[*RequestError](cause); ok && own != nil {
		// The game has chosen code and text itself.
		answer.Code = own.Code
		answer.Text = own.Text
	}
	if v != ask.Refused {
		// The text is from this package rather than the game, and has our prefix.
		answer.Text = strings.TrimPrefix(answer.Text, prefix)
	}
	answer.Text = ask.Cut(answer.Text)
	return answer
}

// logUnsent logs that an answer or a cancel could not be sent, since there's no caller to receive
// the error. It logs at most once a second for each method.
func (w *World) logUnsent(m *method, err error) {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrDormant) {
		// The actor, its channel or the connection has ended, which isn't a mistake and was logged
		// when it happened.
		return
	}
	// Use real time, because the game's clock stands still between ticks.
	if hidden, ok := w.failWarn.Pass(m, time.Now()); ok {
		w.log.Warn("answer or cancellation of a request not sent", "rpc", m.String(), "error", err, "more", hidden)
	}
}

// fail is called if the answer can't be sent. It logs the error, and sends the error as the
// answer instead.
func (q *question) fail(err error) {
	q.actor.world.logUnsent(q.method.pair, err)
	q.refuse(ask.Failed, err)
}

// failUnanswered is deferred around the handler of a question that this world has asked itself.
// If the handler has panicked without answering, failUnanswered answers with an error.
func (q *question) failUnanswered() {
	if !q.answered.Load() && q.postponed == nil {
		q.refuse(ask.Failed, errNoReturn)
	}
}

// dropQuestion counts a question that isn't run. If there's a verdict for the reason, it tells
// the asker why.
func (w *World) dropQuestion(c *Conn, a *Actor, m *method, number uint64, reason drops.Reason) {
	c.drop(reason, a, m)
	if verdict, ok := verdictOf[reason]; ok {
		q := &w.handling.question
		*q = question{conn: c, actor: a, method: m, number: number}
		q.refuse(verdict, nil)
	}
}

// verdictOf maps the reason why a question is dropped to the verdict for its asker.
//
// Exceeding the limit on open questions does not close the connection, because an honest peer may
// do so: the two ends may have different limits, and a cancel that makes room may still be in
// flight on another actor's channel.
var verdictOf = map[drops.Reason]ask.Verdict{
	drops.Unbound:     ask.Unbound,
	drops.NotOwner:    ask.NotOwner,
	drops.RateLimited: ask.RateLimited,
	drops.Requests:    ask.TooMany,
	drops.Blocked:     ask.Blocked,
}

// runQuestionHere runs a question that this world has asked itself.
func (w *World) runQuestionHere(l localCall) {
	if _, open := w.requests.asked.Get(l.question); !open {
		return // nobody is waiting any longer
	}
	h := &w.handling
	h.question = question{actor: l.actor, method: l.method, number: l.question}
	h.call.question = &h.question
	defer h.question.failUnanswered()
	p := l.actor.partOf(l.method.class)
	p.binding.handlers[l.method.id].runLocal(p.object, &h.call, l.arg)
	h.question.answered.Store(true)
}

// cancelQuestion is called when the peer has canceled its question.
func (w *World) cancelQuestion(c *Conn, a *Actor, m *method, number uint64) {
	q, ok := c.requests.questions.Get(number)
	if ok && q.actor == a && q.method == m {
		c.requests.questions.Take(number)
		q.end(errCanceled)
		return
	}
	// The question may be waiting for actors. If not, it was answered before the cancel arrived.
	c.waiting.cancel(a, m, number)
}
