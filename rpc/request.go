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

// A Request is an RPC with a result: a declared question with an argument A and an answer R. It
// consists of two reliable calls on the actor's channel, the question in one direction and the
// answer in the other. UE has no counterpart: its games use a Server RPC and a Client RPC that
// carry the same number.
//
// Both calls run in order with the actor's other reliable calls, cost the same, and share their
// reliable buffers. They are also part of the shape that the handshake compares. Ownership,
// [AnyCaller], Validate, [Check] and [RateLimit] apply as they do to an RPC, except that a question
// is answered with an error where an RPC would be dropped silently.
//
// A request ends exactly once:
//
//   - with its answer, or with the error of the handler at the other end
//   - when it times out, after Config.RequestTime or the limit of ThenWithin, or at the deadline of
//     a context
//   - when it is canceled
//   - when the actor's channel closes or the connection ends
//
// The error is always a [*RequestError]. While a request is open, its actor does not go dormant.
type Request[A, R any] struct{ question, answer *method }

// ServerRequest declares a request that an actor's owner makes and the server answers. The server
// may also make the request, and then answers it itself.
func ServerRequest[A, R any](class *Class, name string, opts ...MethodOption) *Request[A, R] {
	return declareRequest[A, R](class, name, serverRPC, clientRPC, opts)
}

// ClientRequest declares a request that the server makes and the client that owns the actor
// answers. If no client owns the actor, the server answers it itself. A client may also make the
// request, and then answers it itself.
func ClientRequest[A, R any](class *Class, name string, opts ...MethodOption) *Request[A, R] {
	return declareRequest[A, R](class, name, clientRPC, serverRPC, opts)
}

// declareRequest declares the question and the answer of a request.
func declareRequest[A, R any](class *Class, name string, question, answer kind, opts []MethodOption) *Request[A, R] {
	r := &Request[A, R]{
		declare[A](class, name, question, Reliable, opts),
		declare[R](class, name+".Answer", answer, Reliable, nil),
	}
	r.question.role = isQuestion
	r.question.pair = r.answer
	r.answer.role = isAnswer
	r.answer.pair = r.question
	return r
}

// String returns "Class.Name".
func (r *Request[A, R]) String() string { return r.question.String() }

func (r *Request[A, R]) declared() *method { return r.question }
func (r *Request[A, R]) takes(A)           {}

// OnRequest registers fn to answer r. fn runs on the world's goroutine. For an answer that takes
// time, use [Request.Go] or [Request.Later]. OnRequest panics if r belongs to another class or has
// a function already.
//
// If fn returns an error, the asker receives the error's text, shortened to 512 bytes, and a code.
// If the error is or wraps a [*RequestError], the code is taken from there. Otherwise it comes from
// [Class.Errors]. The error closes nothing.
//
// If fn destroys the actor, the answer is lost and the asker gets ErrClosed. If fn panics, the
// connection is closed: see Config.OnPanic.
func OnRequest[T, A, R any](b *Binding[T], r *Request[A, R], fn func(object T, call *Call, arg A) (R, error)) {
	m := r.question
	e := endpointOf[T, A](b, m)
	mustHook("OnRequest", m, fn == nil, e.run != nil)
	e.run = func(object T, call *Call, arg A) {
		q := call.question
		defer q.handlerReturned()
		result, err := fn(object, call, arg)
		switch {
		case q.postponed == nil:
			r.reply(q, result, err)
		case err != nil && q.postponed.claimAnswer():
			// The handler has called Later, but then failed. The error is the answer.
			r.replyTo(q.postponed, result, err)
		}
	}
}

// Ask asks the question and waits for the answer. It must not be called on the world's goroutine,
// where it returns [ErrOnWorld]. Use Then there. The world must be driven while Ask waits.
//
// If ctx ends before the answer arrives, the request is canceled, and [Call.Context] ends at the
// other end. If ctx has no deadline, the request ends after Config.RequestTime.
func (r *Request[A, R]) Ask(ctx context.Context, a *Actor, arg A) (result R, err error) {
	switch {
	case !a.valid():
		return result, fmt.Errorf("rpc: %v asked of %s", r, noActor)
	case a.world.Inside():
		return result, fmt.Errorf("%w: Ask of %v would deadlock: use Then", ErrOnWorld, r)
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
	finish := func(result R, err error) {
		answer = result
		failure = err
		close(done)
	}
	q := &inquiry{
		actor:    a,
		method:   r.question,
		handler:  &typedHandler[R]{m: r.answer, then: finish},
		blocking: true,
	}

	// Wait until the world has asked the question. If ctx ends before that, the question isn't
	// asked at all. In both cases, nothing reads arg after this.
	wait := func(done <-chan struct{}) error { return w.lobby.awaitAnswer(ctx, done) }
	askErr := errNotAsked
	err = w.runInDispatch(func() { askErr = r.ask(q, arg, time.Time{}) }, wait)
	err = cmp.Or(err, askErr)
	if err != nil {
		return result, q.failed(err)
	}

	// Then wait for the answer, which may arrive just as ctx ends.
	err = wait(done)
	if err == nil || bell.Closed(done) {
		return answer, failure
	}
	w.postUnlimited(func() { w.giveUp(q) })
	return result, q.failed(err)
}

// errNotAsked is the error of Ask if Validate panics.
var errNotAsked = errors.New("rpc: question not sent: Validate of its argument did not return")

// Then asks the question, and calls fn once with the answer or the error. It must be called on the
// world's goroutine. fn runs there too, in a later Dispatch. If Then itself returns an error, the
// question was not asked and fn is not called.
//
// The request ends after Config.RequestTime. For another limit use ThenWithin.
func (r *Request[A, R]) Then(a *Actor, arg A, fn func(result R, err error)) error {
	return r.then("Then", a, arg, 0, fn)
}

// ThenWithin is like Then, except that the request ends after limit instead of Config.RequestTime.
// In the first Dispatch after limit, the request is canceled and fn is called with
// context.DeadlineExceeded. If limit is not positive, ThenWithin returns that error without asking
// the question.
func (r *Request[A, R]) ThenWithin(limit time.Duration, a *Actor, arg A, fn func(result R, err error)) error {
	if limit <= 0 {
		err := fmt.Errorf("time limit of %v: %w", limit, context.DeadlineExceeded)
		return (&inquiry{method: r.question}).failed(err)
	}
	return r.then("ThenWithin", a, arg, limit, fn)
}

// then implements Then and ThenWithin. caller is the name of the method, for error texts. A limit
// of 0 stands for Config.RequestTime.
func (r *Request[A, R]) then(caller string, a *Actor, arg A, limit time.Duration, fn func(result R, err error)) error {
	switch {
	case !a.valid():
		return fmt.Errorf("rpc: %v asked of %s", r, noActor)
	case fn == nil:
		return fmt.Errorf("rpc: %s of %v with a nil function", caller, r)
	}
	q := &inquiry{actor: a, method: r.question, handler: &typedHandler[R]{m: r.answer, then: fn}, limit: limit}
	var until time.Time
	if limit == 0 {
		limit = a.world.config.RequestTime
	}
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	return r.ask(q, arg, until)
}

// ask asks q, on the world's goroutine. The request ends at until, unless until is zero.
func (r *Request[A, R]) ask(q *inquiry, arg A, until time.Time) error {
	w := q.actor.world
	m := r.question
	p := m.args.Get().(*A)
	*p = arg
	defer putArg(m, p)
	err := w.askQuestion(q, p, until, func() any { return retain(p) })
	if err == nil {
		return nil
	}
	w.logs.Failed(m, err)
	return q.failed(err)
}

// Later lets a handler answer after it has returned. It must be called inside the handler. To
// answer, call the function that Later returns once, on any goroutine. Later panics if call does
// not belong to r.
//
// If the handler then returns a nil error, its result is ignored. If it returns an error,
// that error is the answer, as without Later.
//
// A second answer is dropped and counted in Drops.Answers. The same happens to an answer that
// nobody is waiting for any more. In this case, [Call.Context] has ended.
func (r *Request[A, R]) Later(call *Call) func(R, error) {
	q := call.question
	if q == nil || q.method != r.question {
		panic(fmt.Sprintf("rpc: Later of %v with the Call of another method", r))
	}
	if q.postponed == nil {
		q.postpone()
	}
	later := q.postponed
	return func(result R, err error) {
		if later.claimAnswer() {
			later.actor.world.postUnlimited(func() { r.replyTo(later, result, err) })
		}
	}
}

// Go runs fn on its own goroutine and answers with what fn returns, as with Later. fn may block,
// for example to read from a disk. Its ctx is [Call.Context], which ends when nobody is waiting for
// the answer any more. If fn uses a Raw argument, the handler must copy it.
//
// At most Config.MaxRequests such functions may run on behalf of one asker, including functions
// whose questions were canceled. At this limit, further questions from the asker are refused.
//
// The limit includes functions left over from an earlier connection. An asker is recognized by its
// identity or, if it has none, by its address. All askers without an identity at the same address
// count as one. [World.WaitHandlers] waits for all functions.
func (r *Request[A, R]) Go(call *Call, fn func(ctx context.Context) (R, error)) {
	reply := r.Later(call)
	ctx := call.Context()
	call.Actor.world.background.start(call.question.postponed, func() {
		var result R
		err := errNoReturn
		defer func() { reply(result, err) }()
		result, err = fn(ctx)
	})
}

// errNoReturn is the answer if the handler, or the function that it passed to Go, has panicked.
var errNoReturn = errors.New("the handler did not return")

// A RequestError says why a [Request] has no answer. It wraps the cause:
//
//	context.DeadlineExceeded    nobody answered in time
//	context.Canceled            the context of Ask was canceled
//	ErrClosed, a *CloseError    the connection ended, or the world was closed
//	ErrClosed                   the actor ended, or its channel closed
//	ErrDormant                  the actor is dormant
//	ErrBacklogFull              as many requests are open as Config.MaxRequests of either end allows
//	ErrUnbound                  the end that should answer has no handler
//	ErrNotOwner                 the asker doesn't own the actor, or no longer did when the question arrived
//	one of Class.Errors         the handler returned that error; Refused is set
//	none, with Refused          the handler returned another error
//	none, with RateLimited      the request was asked more often than its RateLimit, or the server's Config.DoS, allows
//
// A handler can return a RequestError itself to choose its Code.
type RequestError struct {
	Request string // name of the request, "Class.Name"

	// Code is the Code of the handler's *RequestError, or the position in Class.Errors if the
	// handler returned one of those errors. It is 0 for any other error.
	Code uint32

	// Text is the text of the handler's error, or says why there is no answer. It is valid UTF-8
	// of at most 512 bytes.
	Text        string
	Refused     bool // the handler returned an error
	RateLimited bool // asked too often; see above
	cause       error
}

func (e *RequestError) Error() string {
	switch {
	// A handler has returned a nil *RequestError as an error, which isn't a nil error.
	case e == nil:
		return "the handler returned a nil *RequestError as an error: return nil instead"
	case e.Refused && e.cause != nil:
		return e.Text
	case e.Refused && e.Code != 0:
		return fmt.Sprintf("rpc: %s refused with code %d: %s", e.Request, e.Code, e.Text)
	case e.Refused:
		return fmt.Sprintf("rpc: %s refused: %s", e.Request, e.Text)
	}
	return fmt.Sprintf("rpc: %s has no answer: %s", e.Request, e.Text)
}

func (e *RequestError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.cause
}

// replyTo answers a postponed question, on the world's goroutine, if the asker is still waiting.
func (r *Request[A, R]) replyTo(later *question, result R, err error) {
	if later.actor.world.takePostponed(later) {
		r.reply(later, result, err)
	}
}

// reply answers a question, on the world's goroutine. If it can't encode the result, it logs the
// error and answers with that instead.
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
	defer putArg(m, p)
	if err := m.validate(p); err != nil {
		q.fail(err)
		return
	}

	// Encode the answer for this world, too, if only to find out whether the codec refuses it.
	e := codec.NewEncoder()
	defer e.Release()
	if q.conn != nil || m.codec.Refuses() {
		e.Buf = ask.AppendAnswer(m.appendID(e.Buf), q.number, ask.Answered)
		if err := m.encode(e, p); err != nil {
			q.fail(err)
			return
		}
	}
	if q.conn == nil {
		q.actor.world.answerHere(q, retain(p))
		return
	}
	if err := q.send(e.Buf); err != nil {
		q.fail(err)
	}
}

// A typedHandler is the answerHandler for answers of type R. Its methods implement that interface.
type typedHandler[R any] struct {
	m      *method        // the answer
	then   func(R, error) // called once, by finish
	result R              // set by decode or store
}

func (h *typedHandler[R]) decode(c *Conn, payload []byte) error {
	if err := h.m.codec.Decode(payload, &h.result); err != nil {
		return h.m.undecodable(len(payload), err)
	}
	if raw, ok := any(&h.result).(*Raw); ok {
		// Copy the payload, which is valid only during this call. The asker may keep the answer,
		// and a goroutine in Ask reads it later.
		*raw = retain(raw).(Raw)
	}
	if h.m.refers {
		c.drops.Add(drops.UnknownRef, len(c.clearUnknown(&h.result)))
	}
	return h.m.validate(&h.result)
}

func (h *typedHandler[R]) store(result any) { h.result = result.(R) }

// finish calls then with the result, or with err and a zero result.
func (h *typedHandler[R]) finish(err error) {
	var none R
	if err != nil {
		h.result = none
	}
	h.then(h.result, err)
}
