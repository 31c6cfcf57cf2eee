//go:build unix

package files

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that had just stopped was found running by a check, as the process started another
// one at that moment: what is forked holds a copy of the open file until it is loaded.
func TestACopyOfTheFileThatIsClosedSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path, 0)
	require.NoError(t, err)
	forked, err := syscall.Dup(int(first.Fd()))
	require.NoError(t, err)
	require.NoError(t, first.Close())
	copied := os.NewFile(uintptr(forked), path)
	closed := make(chan error)
	go func() { time.Sleep(5 * time.Millisecond); closed <- copied.Close() }()
	second, err := Lock(path, 0)
	require.NoError(t, err)
	require.NoError(t, <-closed)
	require.NoError(t, second.Close())
}
