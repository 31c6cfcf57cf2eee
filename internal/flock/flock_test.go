package flock

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOneHoldsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Wait(path, 0)
	require.NoError(t, err)
	_, err = Wait(path, time.Millisecond)
	require.ErrorIs(t, err, ErrHeld)
	require.ErrorContains(t, err, path)

	released := make(chan error)
	go func() { time.Sleep(5 * time.Millisecond); released <- first.Close() }()
	second, err := Wait(path, time.Minute)
	require.NoError(t, err)
	require.NoError(t, <-released)
	require.NoError(t, second.Close())

	_, err = Wait(filepath.Join(path, "below"), 0)
	require.Error(t, err)
}
