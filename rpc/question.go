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

// question is a question that this side answers.
type question struct {
	conn   *Conn // of the asker; nil = this world
	actor  *Actor
	method *method
	number uint64      // by which the asker identifies it
	kept   *question   // of a running handler's question: the copy that keep has made for Later, or nil
	said   atomic.Bool // it is answered, or its answer was handed to the world's goroutine

	ctx    context.Context // made by Call.Context; nil before
	cancel context.CancelCauseFunc
}

// Causes of the context of a question that ends.
var (
	errCanceled = errors.New("rpc: nobody waits for the answer any more")
	errAnswered = errors.New("rpc: the answer is given")
)

// background manages the handlers that run on their own goroutines, by [Request.Go].
type background struct {
	jobs budget.Jobs // counts them by connection

	mu      sync.Mutex // guards the fields below
	running int
	none    chan struct{} // closed when none runs any more; nil = nobody waits for that
}

// start runs a handler on a new goroutine. The handler counts as running until its answer
// was given to the asker, or the world is closed. start is called on the world's goroutine.
func (b *background) start(q *question, run func()) {
	w := q.actor.world
	of := w.requestsOf(q.conn)
	b.jobs.Begin(&of.running)
	b.count(1)
	go func() {
		defer b.count(-1)
		defer func() {
			left := make(chan struct{})
			w.hand(func() {
				b.jobs.Return(&of.running)
				close(left)
			})
			select {
			case <-left:
			case <-w.lobby.shut:
			}
		}()
		defer w.catch(q.conn, tasks.Doing{What: "the handler of ", Of: q.method})
		run()
	}()
}

// count adds n, which may be negative, to the number of running handlers, and
// releases wait if none runs. It is safe for concurrent use.
func (b *background) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running += n; b.running == 0 && b.none != nil {
		close(b.none)
		b.none = nil
	}
}

// wait waits until no handler runs. It returns the cause of ctx if that ends first.
func (b *background) wait(ctx context.Context) error {
	b.mu.Lock()
	if b.running > 0 && b.none == nil {
		b.none = make(chan struct{})
	}
	none := b.none
	b.mu.Unlock()
	if none == nil {
		return nil
	}
	return waitFor(ctx, none)
}

// keep files a copy of the running handler's question, to be answered later.
func (q *question) keep() {
	kept := &question{conn: q.conn, actor: q.actor, method: q.method, number: q.number, ctx: q.ctx, cancel: q.cancel}
	q.kept = kept
	kept.actor.world.requestsOf(q.conn).questions.Put(q.number, kept)
}

// say claims the right to answer a kept question, which can be answered once. If it was answered
// before, say counts the new answer as dropped and returns false. It is safe for concurrent use.
func (q *question) say() bool {
	if q.said.CompareAndSwap(false, true) {
		return true
	}
	q.actor.world.countUnheard(q.conn)
	return false
}

// leave ends the context of a question whose handler has returned or panicked,
// unless it will be answered later.
func (q *question) leave() {
	if q.kept == nil {
		q.end(errAnswered)
	}
}

// end cancels the context that Call.Context has made, if any.
func (q *question) end(cause error) {
	if q.cancel != nil {
		q.cancel(cause)
	}
}

// resume removes a kept question from the table, to be answered now. It returns
// false if nobody waits for the answer any more.
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
	asked.to.take(result)
	asked.tell(nil)
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

// refuse answers with a verdict that is an error, and with the text of cause, if that is not nil.
func (q *question) refuse(v ask.Verdict, cause error) {
	w, m := q.actor.world, q.method.pair
	answer := ask.Answer{Number: q.number, Verdict: v}
	if cause != nil {
		answer.Code, answer.Text = m.class.codeOf(cause), cause.Error()
		if own, ok := errors.AsType[*RequestError](cause); ok && own != nil {
			answer.Code, answer.Text = own.Code, own.Text
		}
		if v != ask.Refused { // the text is this package's
			answer.Text = strings.TrimPrefix(answer.Text, prefix)
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
		w.countUnheard(q.conn)
		w.logUnsent(m, err)
	}
}

// logUnsent logs, at most once a second for each method, that an answer or a cancel could not
// be sent, because no caller gets that error. It leaves out ErrClosed and ErrDormant: the end
// of an actor, of its channel or of a connection is no mistake, and was logged before.
func (w *World) logUnsent(m *method, err error) {
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrDormant) {
		return
	}
	if hidden, ok := w.failWarn.Pass(m, time.Now()); ok { // real time, because the world's stands still between ticks
		w.log.Warn("answer or cancel of a request not sent", "rpc", m.String(), "error", err, "more", hidden)
	}
}

// fail logs that an answer cannot be sent, and answers with that error instead.
func (q *question) fail(err error) {
	q.actor.world.logUnsent(q.method.pair, err)
	q.refuse(ask.Failed, err)
}

// failUnanswered answers with an error if the handler of a question from this
// world itself has panicked.
func (q *question) failUnanswered() {
	if !q.said.Load() && q.kept == nil {
		q.refuse(ask.Failed, errNoReturn)
	}
}

// dropQuestion counts a question that does not run, and tells the asker.
func (w *World) dropQuestion(c *Conn, a *Actor, m *method, number uint64, reason drops.Reason) {
	c.drop(reason, a, m)
	if verdict, ok := verdictOf[reason]; ok {
		q := &w.handling.question
		*q = question{conn: c, actor: a, method: m, number: number}
		q.refuse(verdict, nil)
	}
}

// verdictOf maps the reason for which a question is dropped to the verdict that its asker
// gets. A question too many does not close the connection: the limits of the two ends may
// differ, and a cancel that makes room may still be in flight on another actor's channel.
var verdictOf = map[drops.Reason]ask.Verdict{
	drops.Unbound: ask.Unbound, drops.NotOwner: ask.NotOwner, drops.RateLimited: ask.RateLimited, drops.Requests: ask.TooMany,
	drops.Blocked: ask.Blocked,
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
	p := l.actor.part(l.method.class)
	p.binding.handlers[l.method.id].local(p.object, &h.call, l.arg)
	h.question.said.Store(true)
}

// cancelQuestion ends a question that the peer cancels. If the question is
// unknown, its answer was sent before the cancel arrived.
func (w *World) cancelQuestion(c *Conn, a *Actor, m *method, number uint64) {
	q, ok := c.requests.questions.Get(number)
	if ok && q.actor == a && q.method == m {
		c.requests.questions.Take(number)
		q.end(errCanceled)
		return
	}
	c.waiting.cancel(a, m, number)
}
