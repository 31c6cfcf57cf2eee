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

// A question is a question that this side answers.
type question struct {
	conn   *Conn // of the asker; nil = this world
	actor  *Actor
	method *method
	number uint64 // by which the asker identifies it

	// While the handler runs: the copy that is answered later, or nil. postpone makes it.
	postponed *question

	answered atomic.Bool // it was answered, or its answer was handed to the world's goroutine

	ctx    context.Context // made by Call.Context; nil until then
	cancel context.CancelCauseFunc
}

// Causes of the context of a question that ends.
var (
	errCanceled = errors.New("rpc: nobody waits for the answer any more")
	errAnswered = errors.New("rpc: the answer is given")
)

// background manages the handlers that [Request.Go] runs on goroutines of their own.
type background struct {
	jobs budget.Jobs // counts them by connection

	mu      sync.Mutex // guards the fields below
	running int
	idle    chan struct{} // closed when no handler runs any more; nil = nobody waits for that
}

// start runs a handler on a new goroutine. It is called on the world's goroutine. The handler
// counts as running until its answer has been given to the asker, or the world is closed.
func (b *background) start(q *question, run func()) {
	w := q.actor.world
	of := w.requestsOf(q.conn)
	b.jobs.Begin(&of.running)
	b.count(1)
	go func() {
		defer b.count(-1)
		defer b.finish(w, of)
		defer w.catch(q.conn, tasks.Doing{What: "the handler of ", Of: q.method})
		run()
	}()
}

// finish makes the world's goroutine count a job as finished, and waits until it has or the
// world is closed. The handler handed over its answer earlier, so the answer is given first.
func (b *background) finish(w *World, of *requests) {
	counted := make(chan struct{})
	w.postUnlimited(func() {
		b.jobs.Return(&of.running)
		close(counted)
	})
	select {
	case <-counted:
	case <-w.lobby.shut:
	}
}

// count adds n, which may be negative, to the number of running handlers. If none runs any
// more, it releases wait. It is safe for concurrent use.
func (b *background) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running += n
	if b.running == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// wait waits until no handler runs. It returns the cause of ctx if that ends first.
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

// postpone files a copy of the running handler's question, to be answered later.
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

// claimAnswer claims the right to answer a postponed question, which can be answered once. If
// the question was answered before, claimAnswer counts the new answer as dropped and returns
// false. It is safe for concurrent use.
func (q *question) claimAnswer() bool {
	if q.answered.CompareAndSwap(false, true) {
		return true
	}
	q.actor.world.countUnheard(q.conn)
	return false
}

// leave ends the context of a question whose handler has returned or panicked. It does
// nothing if the question was postponed.
func (q *question) leave() {
	if q.postponed == nil {
		q.end(errAnswered)
	}
}

// end cancels the context that Call.Context made, if any.
func (q *question) end(cause error) {
	if q.cancel != nil {
		q.cancel(cause)
	}
}

// resume removes a postponed question from the table, to be answered now. It returns false if
// nobody waits for the answer any more.
func (w *World) resume(q *question) bool {
	theirs := &w.requestsOf(q.conn).questions
	if open, ok := theirs.Get(q.number); !ok || open != q {
		w.countUnheard(q.conn)
		return false
	}
	theirs.Take(q.number)
	q.end(errAnswered)
	return true
}

// countUnheard counts an answer for which nobody waits.
func (w *World) countUnheard(c *Conn) {
	if c == nil {
		w.dropped.Add(1)
		return
	}
	c.drops.Add(drops.Answer, 1)
}

// answerHere gives the answer to an asker in this world.
func (w *World) answerHere(q *question, result any) {
	asked, ok := w.requests.asked.Take(q.number)
	if !ok {
		w.countUnheard(nil)
		return
	}
	asked.handler.store(result)
	asked.notify(nil)
}

// send sends an answer to the peer, unless the actor's channel has closed.
func (q *question) send(answer []byte) error {
	o := q.actor.openingOn(q.conn)
	if o == nil {
		q.actor.world.countUnheard(q.conn)
		return nil
	}
	return q.actor.send(o, q.method.pair, answer)
}

// refuse answers with a verdict that is an error. If cause is not nil, the answer has its text.
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
		e.Buf = ask.AppendAnswer(e.Buf, q.number, v)
	}
	if err := q.send(e.Buf); err != nil {
		w.countUnheard(q.conn)
		w.logUnsent(m, err)
	}
}

// refusal returns the answer with which refuse answers.
func (q *question) refusal(v ask.Verdict, cause error) ask.Answer {
	answer := ask.Answer{Number: q.number, Verdict: v}
	if cause == nil {
		return answer
	}
	answer.Code = q.method.class.codeOf(cause)
	answer.Text = cause.Error()
	if own, ok := errors.AsType[*RequestError](cause); ok && own != nil {
		answer.Code = own.Code
		answer.Text = own.Text
	}
	if v != ask.Refused { // the text is this package's
		answer.Text = strings.TrimPrefix(answer.Text, prefix)
	}
	answer.Text = ask.Cut(answer.Text)
	return answer
}

// logUnsent logs that an answer or a cancel could not be sent, because no caller gets that
// error. It logs at most once a second for each method.
//
// It ignores ErrClosed and ErrDormant. The end of an actor, of its channel or of a connection
// is not a mistake, and was logged before.
func (w *World) logUnsent(m *method, err error) {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrDormant) {
		return
	}
	// Real time, because the game's time stands still between ticks.
	if hidden, ok := w.failWarn.Pass(m, time.Now()); ok {
		w.log.Warn("answer or cancel of a request not sent", "rpc", m.String(), "error", err, "more", hidden)
	}
}

// fail logs that an answer cannot be sent, and answers with that error instead.
func (q *question) fail(err error) {
	q.actor.world.logUnsent(q.method.pair, err)
	q.refuse(ask.Failed, err)
}

// failUnanswered answers with an error if the handler of a question
// that this world asked itself has panicked.
func (q *question) failUnanswered() {
	if !q.answered.Load() && q.postponed == nil {
		q.refuse(ask.Failed, errNoReturn)
	}
}

// dropQuestion counts a question that is not run, and tells the asker.
func (w *World) dropQuestion(c *Conn, a *Actor, m *method, number uint64, reason drops.Reason) {
	c.drop(reason, a, m)
	if verdict, ok := verdictOf[reason]; ok {
		q := &w.handling.question
		*q = question{conn: c, actor: a, method: m, number: number}
		q.refuse(verdict, nil)
	}
}

// verdictOf maps the reason for which a question is dropped to the verdict for its asker.
//
// A question beyond the limit does not close the connection. The limits of the two ends may
// differ, and a cancel that makes room may still be in flight on another actor's channel.
var verdictOf = map[drops.Reason]ask.Verdict{
	drops.Unbound:     ask.Unbound,
	drops.NotOwner:    ask.NotOwner,
	drops.RateLimited: ask.RateLimited,
	drops.Requests:    ask.TooMany,
	drops.Blocked:     ask.Blocked,
}

// runQuestionHere runs a question that this world asked itself.
func (w *World) runQuestionHere(l localCall) {
	if _, open := w.requests.asked.Get(l.question); !open {
		return // nobody waits any more
	}
	h := &w.handling
	h.question = question{actor: l.actor, method: l.method, number: l.question}
	h.call.question = &h.question
	defer h.question.failUnanswered()
	p := l.actor.partOf(l.method.class)
	p.binding.handlers[l.method.id].local(p.object, &h.call, l.arg)
	h.question.answered.Store(true)
}

// cancelQuestion ends a question that the peer cancels. A question that is unknown was
// answered before the cancel arrived.
func (w *World) cancelQuestion(c *Conn, a *Actor, m *method, number uint64) {
	q, ok := c.requests.questions.Get(number)
	if ok && q.actor == a && q.method == m {
		c.requests.questions.Take(number)
		q.end(errCanceled)
		return
	}
	c.waiting.cancel(a, m, number)
}
