package peer

import "context"

// Await returns when so many have said nil, or the first error.
func Await(ctx context.Context, done <-chan error, n int) error {
	for range n {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
