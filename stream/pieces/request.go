package pieces

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/stream"
)

// byPeer has the errors with which talk fails if the other side ended the talk. The answer
// to the request then says why.
var byPeer = []error{stream.ErrRejected, stream.ErrClosed, stream.ErrCanceled, errShort}

// patience is the maximum time that WithRequest waits for the answer after the other
// side ended the talk.
//
// It is limited because there may be no answer. If a limit of the other side's streams rejects
// a blob, the blob reaches no handler, and the side that would answer still waits for it.
const patience = 5 * time.Second

// WithRequest runs a request and the talk that belongs to it concurrently. ask sends the
// request and waits for its answer, and talk holds the talk. WithRequest returns the answer
// when both have returned.
//
// If one of them fails, WithRequest cancels the context of the other and returns the error
// of the first. If talk fails because the other side ended it, WithRequest first waits up
// to five seconds for ask. It then prefers the error of ask, which says why.
//
// An answer does not end the talk. Give ctx a deadline if you do not trust the other side
// to continue reading.
//
// talk runs on the calling goroutine. If it panics, WithRequest panics as well, once ask
// has returned. ask runs on a goroutine of its own.
func WithRequest[R any](
	ctx context.Context,
	ask func(ctx context.Context) (R, error),
	talk func(ctx context.Context) error,
) (answer R, err error) {
	ctx, end := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	var askErr error
	asking.Go(func() {
		answer, askErr = ask(ctx)
		if askErr != nil {
			end(askErr)
		}
	})
	defer asking.Wait()
	defer end(nil) // if talk panics
	talkErr := talk(ctx)
	if slices.ContainsFunc(byPeer, func(reason error) bool { return errors.Is(talkErr, reason) }) {
		defer time.AfterFunc(patience, func() { end(talkErr) }).Stop()
	} else if talkErr != nil {
		end(talkErr)
	}
	asking.Wait()
	talkFailedFirst := talkErr != nil && errors.Is(context.Cause(ctx), talkErr)
	if askErr == nil || talkFailedFirst {
		return answer, talkErr
	}
	return answer, askErr
}
