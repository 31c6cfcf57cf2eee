package desk

import (
	"context"
	"errors"
	"slices"

	"github.com/quivernet/quiver/rpc"
)

// asking is a request that goes on, with streams beside.
type asking[R any] struct {
	ctx    context.Context // of the streams; ends when the request fails, for that reason
	cancel context.CancelCauseFunc
	ended  chan struct{}
	answer R     // when ended is closed
	err    error // the same
}

func startAsking[A, R any](ctx context.Context, c *Client, r *rpc.Request[A, R], a A) *asking[R] {
	q := &asking[R]{ended: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(q.ended)
		if q.answer, q.err = ask(q.ctx, c, r, a); q.err != nil {
			q.cancel(q.err)
		}
	}()
	return q
}

// wait returns the answer, or why a stream failed: by the answer, if the other side ended it in one of these ways.
func (q *asking[R]) wait(err error, byServer ...error) (R, error) {
	ours := err != nil && !slices.ContainsFunc(byServer, func(end error) bool { return errors.Is(err, end) })
	if ours {
		q.cancel(err)
	}
	<-q.ended
	q.cancel(nil)
	if ours || q.err == nil {
		return q.answer, err
	}
	return q.answer, q.err
}
