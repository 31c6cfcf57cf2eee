package desk

import (
	"context"
	"errors"
	"slices"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// asking is a request that goes on, with a talk beside, which ends when the request fails, for that reason.
type asking[R any] struct {
	*talk
	cancel context.CancelCauseFunc
	ended  chan struct{}
	answer R     // when ended is closed
	err    error // the same
}

func startAsking[A, R any](ctx context.Context, c *Client, r *rpc.Request[A, R], n number, a A) *asking[R] {
	ctx, cancel := context.WithCancelCause(ctx)
	q := &asking[R]{talk: &talk{ctx: ctx, peer: c.peer(), inbox: &c.inbox, number: n, rate: c.config.Rate}, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(q.ended)
		if q.answer, q.err = ask(q.ctx, c, r, a); q.err != nil {
			q.cancel(q.err)
		}
	}()
	return q
}

// byServer is how the talk ends where the answer says why.
var byServer = []error{stream.ErrRejected, stream.ErrClosed, stream.ErrCanceled}

// wait returns the answer, or why the talk failed if that was not the server's doing.
func (q *asking[R]) wait(err error) (R, error) {
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
