package files

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneHoldsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path, 0)
	require.NoError(t, err)
	_, err = Lock(path, time.Millisecond)
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, path)

	released := make(chan error)
	go func() { time.Sleep(5 * time.Millisecond); released <- first.Close() }()
	second, err := Lock(path, time.Minute)
	require.NoError(t, err)
	require.NoError(t, <-released)
	require.NoError(t, second.Close())

	_, err = Lock(filepath.Join(path, "below"), 0)
	require.Error(t, err)
}
