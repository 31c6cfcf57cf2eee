package pieces

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

// TestWithRequest: one's failure ends the other, and the answer counts more than how the other side ended the talk, whichever comes first.
func TestWithRequest(t *testing.T) {
	failed := errors.New("failed")
	rejected := fmt.Errorf("the blob: %w", stream.ErrRejected)
	returns := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	waits := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	require.NoError(t, WithRequest(t.Context(), returns(nil), returns(nil)))
	require.ErrorIs(t, WithRequest(t.Context(), returns(failed), waits), failed)
	require.ErrorIs(t, WithRequest(t.Context(), waits, returns(failed)), failed)
	require.ErrorIs(t, WithRequest(t.Context(), returns(nil), returns(rejected)), stream.ErrRejected)
	for _, end := range []error{rejected, errShort} {
		ended := make(chan struct{})
		err := WithRequest(t.Context(), func(ctx context.Context) error {
			<-ended
			return failed
		}, func(context.Context) error {
			close(ended)
			return end
		})
		require.Equal(t, failed, err)
	}
}
