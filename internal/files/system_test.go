package files

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFree(t *testing.T) {
	bytes, err := Free(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, bytes)
	_, err = Free(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}

// A folder and a file change their places, or stay where they are.
func TestExchange(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	require.NoError(t, os.Mkdir(a, 0o700))
	require.NoError(t, os.WriteFile(b, nil, 0o600))
	swapped := Exchange(a, b) == nil
	for name, folder := range map[string]bool{a: !swapped, b: swapped} {
		info, err := os.Lstat(name)
		require.NoError(t, err)
		require.Equal(t, folder, info.IsDir(), name)
	}
	require.Error(t, Exchange(a, filepath.Join(t.TempDir(), "none")))
}

// Linux says where something is mounted; what is in there, and a folder of
// one's own, is no such place.
func TestMounted(t *testing.T) {
	require.False(t, Mounted(t.TempDir()))
	require.False(t, Mounted(filepath.Join(t.TempDir(), "none")))
	if runtime.GOOS != "linux" {
		require.False(t, Mounted("/"))
		return
	}
	require.True(t, Mounted("/proc"))
	require.False(t, Mounted("/proc/self"))
}

// Only root can make a folder of somebody else's.
func TestIsMine(t *testing.T) {
	dir := t.TempDir()
	mine := func() bool {
		info, err := os.Lstat(dir)
		require.NoError(t, err)
		return IsMine(dir, info)
	}
	require.True(t, mine())
	if os.Chown(dir, 12345, -1) == nil {
		require.False(t, mine())
	}
}
