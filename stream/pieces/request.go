package pieces

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quivernet/quiver/stream"
)

// byPeer lists the errors that a talk returns if the other side has ended it. The answer to the
// request then says why.
var byPeer = []error{stream.ErrRejected, stream.ErrClosed, stream.ErrCanceled, errShort}

// patience is how long WithRequest waits for the answer after the other side has ended the talk.
//
// There may be no answer. If a limit of the other side's streams rejects a blob, the blob reaches
// no handler, and the code that should answer the request is still waiting for the blob.
const patience = 5 * time.Second

// WithRequest runs a request and the talk that belongs to it concurrently. ask sends the request
// and waits for its answer, and talk conducts the talk. WithRequest returns the answer when both
// have returned.
//
// If one of the two fails, WithRequest cancels the context of the other and returns the error of
// the one that failed first. If talk fails because the other side has ended it, WithRequest first
// gives ask up to five seconds to fail too, and then returns the error of ask, because it says
// why.
//
// An answer does not end the talk. Give ctx a deadline if you do not trust the other side to
// continue reading.
//
// talk runs on the calling goroutine. If it panics, WithRequest panics as well, once ask has
// returned. ask runs on a goroutine of its own.
func WithRequest[R any](
	ctx context.Context,
	ask func(ctx context.Context) (R, error),
	talk func(ctx context.Context) error,
) (answer R, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	var askErr error
	asking.Go(func() {
		answer, askErr = ask(ctx)
		if askErr != nil {
			cancel(askErr)
		}
	})
	defer asking.Wait()
	defer cancel(nil) // if talk panics

	talkErr := talk(ctx)
	endedByPeer := slices.ContainsFunc(byPeer, func(reason error) bool { return errors.Is(talkErr, reason) })
	if endedByPeer {
		defer time.AfterFunc(patience, func() { cancel(talkErr) }).Stop()
	} else if talkErr != nil {
		cancel(talkErr)
	}
	asking.Wait()

	// If talk has canceled the context, its error is the cause.
	talkFailedFirst := talkErr != nil && errors.Is(context.Cause(ctx), talkErr)
	if askErr == nil || talkFailedFirst {
		return answer, talkErr
	}
	return answer, askErr
}
