package pieces

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/stream"
)

// byPeer are the errors of talk if the other side has ended the talk. The
// answer to the request then says why.
var byPeer = []error{stream.ErrRejected, stream.ErrClosed, stream.ErrCanceled, errShort}

// patience is how long WithRequest waits for the answer after the other side has ended the talk.
// It is limited because there may be no answer: if a limit of the other side's streams refuses a
// blob, the blob reaches no handler, and the side that would answer still waits for it.
const patience = 5 * time.Second

// WithRequest runs a request and the talk that belongs to it concurrently: ask
// sends the request and waits for its answer, and talk holds the talk.
// WithRequest returns the answer when both have returned.
//
// If one of them fails, WithRequest cancels the context of the other and returns the error
// of the first. If talk fails because the other side has ended it, WithRequest first waits
// up to five seconds for ask, and prefers its error, which says why. An answer does not
// end the talk, so give ctx a deadline if you do not trust the other side to read on.
//
// talk runs on the calling goroutine; if it panics, WithRequest panics, too,
// once ask has returned. ask runs on a goroutine of its own.
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
	defer end(nil) // if talk panics
	broken := talk(ctx)
	if slices.ContainsFunc(byPeer, func(reason error) bool { return errors.Is(broken, reason) }) {
		defer time.AfterFunc(patience, func() { end(broken) }).Stop()
	} else if broken != nil {
		end(broken)
	}
	asking.Wait()
	if refused == nil || broken != nil && errors.Is(context.Cause(ctx), broken) { // talk was the first to fail
		return answer, broken
	}
	return answer, refused
}
