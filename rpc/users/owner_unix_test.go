//go:build !windows

package users

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that runs as another user than who edits its tokens reads them all the same.
func TestAFileKeepsItsOwnerAndMode(t *testing.T) {
	path := fileOf(t, "ann:"+alpha)
	require.NoError(t, os.Chmod(path, 0o640))
	const server = 12345
	owned := os.Chown(path, server, server) == nil // as root
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	_, err := Add(link, "bob")
	require.NoError(t, err)
	tokens, err := List(path)
	require.NoError(t, err)
	require.Len(t, tokens, 2)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode().Perm())
	if owned {
		require.EqualValues(t, server, info.Sys().(*syscall.Stat_t).Uid)
	}
}
