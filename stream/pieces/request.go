package pieces

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/stream"
)

// byPeer are the errors of a talk that the other side ended, for a reason that the answer of the request has.
var byPeer = []error{stream.ErrRejected, stream.ErrClosed, stream.ErrCanceled, errShort}

// WithRequest runs ask, which asks a request, and talk, which has the talk that belongs to it, at once, and returns the answer when both have
// ended. The first that fails ends the context of the other, and its error is returned; but when the other side ended the talk, WithRequest waits
// for ask, whose error says why, and prefers that. An answer does not end the talk: ctx has a deadline where the other side is not trusted to read
// on.
func WithRequest[R any](ctx context.Context, ask func(ctx context.Context) (R, error), talk func(ctx context.Context) error) (answer R, err error) {
	var broken error
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		answer, err = ask(ctx)
		return err
	})
	both.Go(func() error {
		err := talk(ctx)
		if slices.ContainsFunc(byPeer, func(end error) bool { return errors.Is(err, end) }) {
			broken = err
			return nil
		}
		return err
	})
	err = both.Wait()
	return answer, cmp.Or(err, broken)
}
