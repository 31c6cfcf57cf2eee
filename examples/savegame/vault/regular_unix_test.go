//go:build !windows

package vault

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// plant puts a pipe and two links into a folder and returns their names.
func plant(t *testing.T, dir string) []string {
	t.Helper()
	outside := writeFile(t, "outside")
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "folder")))
	return []string{"pipe", "link", "folder"}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	for _, name := range plant(t, dir) {
		_, err := openOwn(filepath.Join(dir, name))
		require.ErrorIs(t, err, errNotRegular, name)
	}
	_, err := openRegular(filepath.Join(dir, "pipe"))
	require.ErrorIs(t, err, errNotRegular)
	f, err := openRegular(filepath.Join(dir, "link"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = NewGuard(filepath.Join(dir, "pipe"))
	require.ErrorIs(t, err, errNotRegular)
}
