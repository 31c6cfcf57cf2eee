package files

import (
	"os"
	"path/filepath"
	"runtime"
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

// A file that was removed, or replaced by another, no longer stands.
func TestStands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := Lock(path, 0)
	require.NoError(t, err)
	require.True(t, Stands(f))
	require.NoError(t, f.Close())
	require.False(t, Stands(f), "it is closed")

	if runtime.GOOS == "windows" {
		return // where no open file is moved
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	require.NoError(t, err)
	f, err = root.Open("lock")
	require.NoError(t, err)
	require.True(t, Stands(f))
	moved := path + " moved"
	require.NoError(t, os.Rename(path, moved))
	require.False(t, Stands(f))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.False(t, Stands(f))
	require.NoError(t, f.Close())
	require.NoError(t, root.Close())
}
