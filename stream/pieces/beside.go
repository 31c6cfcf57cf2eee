package pieces

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/stream"
)

// byPeer is how a talk ends where the answer says why.
var byPeer = []error{stream.ErrRejected, stream.ErrClosed, stream.ErrCanceled}

// Beside asks a request and talks about it at once, until both have ended, or one has failed, which ends the other. It returns the first error.
// Where the other side ended what was said, that is the request's, if it has one: it says why.
func Beside(ctx context.Context, ask, talk func(ctx context.Context) error) error {
	var broken error
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return ask(ctx) })
	both.Go(func() error {
		err := talk(ctx)
		if slices.ContainsFunc(byPeer, func(end error) bool { return errors.Is(err, end) }) {
			broken = err
			return nil
		}
		return err
	})
	err := both.Wait()
	return cmp.Or(err, broken)
}
