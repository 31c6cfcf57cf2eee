package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A disk that was full when the lock was taken left an empty lock file, and nothing
// could open the store, not even check. Here the lock file is the system's full device.
func TestOpenWhereTheLockCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(dir, lockFile)))
	f, err := Open(dir)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
