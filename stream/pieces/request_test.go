package pieces

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

// TestWithRequest: if one function fails, the other is ended. The answer takes
// precedence over the error of a talk that the other side has ended, whichever is first.
func TestWithRequest(t *testing.T) {
	failed := errors.New("failed")
	rejected := fmt.Errorf("the blob: %w", stream.ErrRejected)
	returns := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	answers := func(err error) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return 7, err }
	}
	waits := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	answer, err := WithRequest(t.Context(), answers(nil), returns(nil))
	require.NoError(t, err)
	require.Equal(t, 7, answer)
	_, err = WithRequest(t.Context(), answers(failed), waits)
	require.ErrorIs(t, err, failed)
	_, err = WithRequest(t.Context(), func(ctx context.Context) (int, error) { return 0, waits(ctx) }, returns(failed))
	require.ErrorIs(t, err, failed)
	_, err = WithRequest(t.Context(), answers(nil), returns(rejected))
	require.ErrorIs(t, err, stream.ErrRejected)
	for _, end := range []error{rejected, errShort} {
		ended := make(chan struct{})
		_, err := WithRequest(t.Context(), func(ctx context.Context) (int, error) {
			<-ended
			return 0, failed
		}, func(context.Context) error {
			close(ended)
			return end
		})
		require.Equal(t, failed, err)
	}
}

// A panic of talk once ended the program, whatever rpc.Config.OnPanic says,
// because it was on a goroutine without a recover.
func TestWithRequestPanics(t *testing.T) {
	ended := false
	asks := func(ctx context.Context) (int, error) {
		<-ctx.Done()
		ended = true
		return 0, context.Cause(ctx)
	}
	require.PanicsWithValue(t, "a mistake", func() {
		_, _ = WithRequest(t.Context(), asks, func(context.Context) error { panic("a mistake") })
	})
	require.True(t, ended, "the request goes on")
}

// A blob that a limit of the receiver refuses never reaches its handler, which
// waits for it. WithRequest once waited with it, for as long as ctx allowed.
func TestWithRequestWaitsForNoAnswerWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := fmt.Errorf("full: %w", stream.ErrRejected)
		_, err := WithRequest(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, errors.New("no answer")
		}, func(context.Context) error { return refused })
		require.Equal(t, refused, err)
	})
}
