package pieces

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/stream"
)

// byPeer are the errors of a talk that the other side ended, for a reason that the answer of the request has.
var byPeer = []error{stream.ErrRejected, stream.ErrClosed, stream.ErrCanceled, errShort}

// patience is how long WithRequest waits for the answer once the other side has ended the talk. When a limit of the other side's streams has
// refused a blob, no answer comes: the blob reaches no handler, and the side that would answer waits for the blob.
const patience = 5 * time.Second

// WithRequest runs ask, which asks a request, and talk, which has the talk that belongs to it, at once, and returns the answer when both have
// ended. The first that fails ends the context of the other, and its error is returned; but when the other side ended the talk, WithRequest
// waits up to five seconds for ask, whose error says why, and prefers that one. An answer does not end the talk: give ctx a deadline where the
// other side is not trusted to read on. talk runs on the goroutine that called WithRequest, so its panic is the caller's, once ask has ended;
// ask runs on a goroutine of its own.
func WithRequest[R any](ctx context.Context, ask func(ctx context.Context) (R, error), talk func(ctx context.Context) error) (answer R, err error) {
	ctx, end := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	var refused error
	asking.Go(func() {
		if answer, refused = ask(ctx); refused != nil {
			end(refused)
		}
	})
	defer asking.Wait()
	defer end(nil) // when talk panics
	broken := talk(ctx)
	if slices.ContainsFunc(byPeer, func(reason error) bool { return errors.Is(broken, reason) }) {
		defer time.AfterFunc(patience, func() { end(broken) }).Stop()
	} else if broken != nil {
		end(broken)
	}
	asking.Wait()
	if refused == nil || broken != nil && errors.Is(context.Cause(ctx), broken) { // which came first
		return answer, broken
	}
	return answer, refused
}
