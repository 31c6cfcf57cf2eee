package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/drops"
)

// A Request is a declared question with an argument A and its answer R. It is two reliable calls on
// the actor's channel, the question in one direction and the answer in the other. Both run in order
// with the actor's other reliable calls, cost the same as those, use the same reliable buffers, and
// are part of the shape that the handshake compares. Ownership, [AnyCaller], Validate, [Check] and
// [RateLimit] apply as for an RPC, but if an RPC would be silently dropped, a question is answered
// with an error. UE has no counterpart: games use a Server RPC and a Client RPC with a number.
//
// A request ends exactly once: with its answer, with the error of the handler at the other end,
// when its time is over (Config.RequestTime, the deadline of a context, or the limit of
// ThenWithin), when it is canceled, when the actor's channel closes, or when the connection ends.
// Its error is always a [*RequestError]. While a request is open, its actor does not fall asleep.
type Request[A, R any] struct{ question, answer *method }

// ServerRequest declares a request that the owner of an actor asks and the
// server answers. If it is asked on the server, the server itself answers.
func ServerRequest[A, R any](class *Class, name string, opts ...MethodOption) *Request[A, R] {
	return declareRequest[A, R](class, name, serverRPC, clientRPC, opts)
}

// ClientRequest declares a request that the server asks and the client that
// owns the actor answers. If no client owns the actor, the server itself
// answers; if it is asked on a client, that client does.
func ClientRequest[A, R any](class *Class, name string, opts ...MethodOption) *Request[A, R] {
	return declareRequest[A, R](class, name, clientRPC, serverRPC, opts)
}

// declareRequest declares the question and the answer of a request.
func declareRequest[A, R any](class *Class, name string, question, answer kind, opts []MethodOption) *Request[A, R] {
	r := &Request[A, R]{
		declare[A](class, name, question, Reliable, opts),
		declare[R](class, name+".Answer", answer, Reliable, nil),
	}
	r.question.role, r.question.pair = isQuestion, r.answer
	r.answer.role, r.answer.pair = isAnswer, r.question
	return r
}

// String returns "Class.Name".
func (r *Request[A, R]) String() string { return r.question.String() }

func (r *Request[A, R]) declared() *method { return r.question }
func (r *Request[A, R]) takes(A)           {}

// OnRequest makes fn answer r. fn runs on the world's goroutine. If fn returns an error,
// the asker receives its text, cut to 512 bytes, with a code: that of a [*RequestError]
// that the error is or wraps, or else that of [Class.Errors]. The error closes nothing. For
// an answer that takes time use [Request.Go] or [Request.Later]. If fn destroys the actor,
// the answer is lost, and the asker gets ErrClosed. If fn panics, the connection ends: see
// Config.OnPanic. OnRequest panics if r is of another class or has a function already.
func OnRequest[T, A, R any](b *Binding[T], r *Request[A, R], fn func(object T, call *Call, arg A) (R, error)) {
	m := r.question
	e := endpointOf[T, A](b, m)
	mustHook("OnRequest", m, fn == nil, e.run != nil)
	e.run = func(object T, call *Call, arg A) {
		q := call.question
		defer q.leave()
		result, err := fn(object, call, arg)
		switch {
		case q.kept == nil:
			r.reply(q, result, err)
		case err != nil && q.kept.say():
			r.replyTo(q.kept, result, err)
		}
	}
}

// Ask asks and waits for the answer. It must not be called on the world's
// goroutine, where it returns [ErrOnWorld]: use Then there. The world must be
// driven meanwhile. If ctx ends first, the other end is told, and [Call.Context]
// ends there. If ctx has no deadline, the request ends after Config.RequestTime.
func (r *Request[A, R]) Ask(ctx context.Context, a *Actor, arg A) (result R, err error) {
	switch {
	case !a.made():
		return result, fmt.Errorf("rpc: %v asked of %s", r, noActor)
	case a.world.Inside():
		return result, fmt.Errorf("%w: Ask of %v would wait for itself; use Then", ErrOnWorld, r)
	}
	w := a.world
	if _, bounded := ctx.Deadline(); !bounded && w.config.RequestTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.config.RequestTime, w.timeUp(0))
		defer cancel()
	}
	var answer R
	var failure error
	done := make(chan struct{}) // closed when answer and failure are set
	hear := func(result R, err error) {
		answer, failure = result, err
		close(done)
	}
	q := &inquiry{actor: a, method: r.question, to: &hearer[R]{m: r.answer, then: hear}, waits: true}

	// Wait for the question to be put, which does not happen if ctx ends before
	// its turn, and then for the answer. Nothing reads arg after visit.
	wait := func(done <-chan struct{}) error { return w.lobby.awaitAnswer(ctx, done) }
	put := errNotPut
	err = w.visit(func() { put = r.put(q, arg, time.Time{}) }, wait)
	if err = cmp.Or(err, put); err != nil {
		return result, q.failed(err)
	}
	if err = wait(done); err == nil || bell.Closed(done) { // or both happened at the same time
		return answer, failure
	}
	w.hand(func() { w.giveUp(q) })
	return result, q.failed(err)
}

// errNotPut is the error of Ask if put does not return because Validate panics.
var errNotPut = errors.New("rpc: the question was not asked: Validate of its argument did not return")

// Then asks, and calls fn once, in a later Dispatch, with the answer or the error. It must be
// called on the world's goroutine, where fn runs, too. If Then itself returns an error, nothing
// was asked, and fn is not called. The request ends after Config.RequestTime; see ThenWithin.
func (r *Request[A, R]) Then(a *Actor, arg A, fn func(result R, err error)) error {
	return r.then("Then", a, arg, 0, fn)
}

// ThenWithin is Then for a request that ends after limit instead of Config.RequestTime. In the
// first Dispatch after limit, fn is called with context.DeadlineExceeded, and the other end is told
// that nobody waits. If limit is not above 0, ThenWithin returns that error, and nothing was asked.
func (r *Request[A, R]) ThenWithin(limit time.Duration, a *Actor, arg A, fn func(result R, err error)) error {
	if limit <= 0 {
		return (&inquiry{method: r.question}).failed(fmt.Errorf("asked with a limit of %v: %w", limit, context.DeadlineExceeded))
	}
	return r.then("ThenWithin", a, arg, limit, fn)
}

// then implements Then and ThenWithin; by is the name of the one that was
// called. A limit of 0 stands for Config.RequestTime.
func (r *Request[A, R]) then(by string, a *Actor, arg A, limit time.Duration, fn func(result R, err error)) error {
	switch {
	case !a.made():
		return fmt.Errorf("rpc: %v asked of %s", r, noActor)
	case fn == nil:
		return fmt.Errorf("rpc: %s of %v: no function for the answer", by, r)
	}
	q := &inquiry{actor: a, method: r.question, to: &hearer[R]{m: r.answer, then: fn}, limit: limit}
	var until time.Time
	if limit = cmp.Or(limit, a.world.config.RequestTime); limit > 0 {
		until = time.Now().Add(limit)
	}
	return r.put(q, arg, until)
}

// put asks q, on the world's goroutine. The request ends at until, unless that is zero.
func (r *Request[A, R]) put(q *inquiry, arg A, until time.Time) error {
	w, m := q.actor.world, r.question
	p := m.args.Get().(*A)
	*p = arg
	defer release(m, p)
	err := w.place(q, p, until, func() any { return keep(p) })
	if err == nil {
		return nil
	}
	w.logs.Failed(m, err)
	return q.failed(err)
}

// Later is called inside the handler if the answer takes time. The result that the handler
// returns with a nil error is then ignored; an error that it returns is the answer, as without
// Later. To give the answer, call the function that Later returns once, on any goroutine. An
// answer for which nobody waits any more, and a second answer, are dropped and counted
// (Drops.Answers); [Call.Context] ends when nobody waits. Later panics if the call is not of r.
func (r *Request[A, R]) Later(call *Call) func(R, error) {
	q := call.question
	if q == nil || q.method != r.question {
		panic(fmt.Sprintf("rpc: Later of %v for a call that does not ask it", r))
	}
	if q.kept == nil {
		q.keep()
	}
	kept := q.kept
	return func(result R, err error) {
		if kept.say() {
			kept.actor.world.hand(func() { r.replyTo(kept, result, err) })
		}
	}
}

// Go runs fn on its own goroutine, so that fn may wait, for a disk for example, and answers
// with what fn returns, as Later does. The ctx of fn is [Call.Context], which ends when
// nobody waits for the answer any more. The handler must copy a Raw argument that fn uses.
//
// At most Config.MaxRequests such functions of one asker may run, including those
// whose questions were canceled. Until one returns, further questions of the asker are
// refused as exceeding that limit. Those that still run count when the asker connects
// again: an asker is recognised by its identity or, without one, by its address, where
// all that have no identity count as one. [World.WaitHandlers] waits for all of them.
func (r *Request[A, R]) Go(call *Call, fn func(ctx context.Context) (R, error)) {
	reply, ctx := r.Later(call), call.Context()
	call.Actor.world.background.start(call.question.kept, func() {
		var result R
		err := errNoReturn
		defer func() { reply(result, err) }()
		result, err = fn(ctx)
	})
}

// errNoReturn answers a question whose handler has panicked.
var errNoReturn = errors.New("the handler did not return")

// replyTo answers a question that was kept, on the world's goroutine, if the asker still waits.
func (r *Request[A, R]) replyTo(kept *question, result R, err error) {
	if kept.actor.world.resume(kept) {
		r.reply(kept, result, err)
	}
}

// reply answers a question, on the world's goroutine. If result cannot be
// encoded, reply answers with that error, and logs it.
func (r *Request[A, R]) reply(q *question, result R, err error) {
	if err != nil {
		verdict := ask.Refused
		if err == errNoReturn {
			verdict = ask.Failed
		}
		q.refuse(verdict, err)
		return
	}
	m := r.answer
	p := m.args.Get().(*R)
	*p = result
	defer release(m, p)
	if err := m.validate(p); err != nil {
		q.fail(err)
		return
	}
	e := codec.NewEncoder()
	defer e.Release()
	if q.conn != nil || m.codec.Refuses() { // encode even for this world, if the codec may refuse the answer
		e.Buf = ask.AppendAnswer(m.appendID(e.Buf), q.number, ask.Answered)
		if err := m.encode(e, p); err != nil {
			q.fail(err)
			return
		}
	}
	if q.conn == nil {
		q.actor.world.answerHere(q, keep(p))
		return
	}
	if err := q.send(e.Buf); err != nil {
		q.fail(err)
	}
}

// hearer implements receiver for answers of type R.
type hearer[R any] struct {
	m      *method        // of the answer
	then   func(R, error) // called once, at the end
	result R              // as read or taken
}

func (h *hearer[R]) read(c *Conn, payload []byte) error {
	if err := h.m.codec.Decode(payload, &h.result); err != nil {
		return h.m.undecodable(len(payload), err)
	}
	if raw, ok := any(&h.result).(*Raw); ok {
		*raw = keep(raw).(Raw) // the asker may keep it, and a goroutine in Ask reads it later
	}
	if h.m.refers {
		c.drops.Add(drops.UnknownRef, len(c.clearUnknown(&h.result)))
	}
	return h.m.validate(&h.result)
}

func (h *hearer[R]) take(result any) { h.result = result.(R) }

// hear calls then with the result, or with err and a zero result.
func (h *hearer[R]) hear(err error) {
	var none R
	if err != nil {
		h.result = none
	}
	h.then(h.result, err)
}
