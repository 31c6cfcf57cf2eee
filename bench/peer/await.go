package peer

import (
	"context"
	"errors"
)

// dialers is how many clients of a crowd connect at a time.
const dialers = 16

// Join runs connect for n clients, at most dialers at a time, and returns the errors of all.
func Join(n int, connect func() error) (err error) {
	failed := make(chan error, n)
	slots := make(chan struct{}, dialers)
	for range n {
		slots <- struct{}{}
		go func() {
			failed <- connect()
			<-slots
		}()
	}
	for range n {
		err = errors.Join(err, <-failed)
	}
	return err
}

// Await returns nil once it has received nil n times from done, or the first error of done or ctx.
func Await(ctx context.Context, done <-chan error, n int) error {
	for range n {
		if err := await(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

// await returns what it receives from done, or the cause of ctx if that ends before.
func await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
