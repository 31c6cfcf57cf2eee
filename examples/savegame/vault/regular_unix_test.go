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

func TestPlantedSavesAreNone(t *testing.T) {
	v := openVault(t, Limits{})
	save(t, v, alice, "x", []byte("hers"))
	f := v.Folder(alice)
	for _, name := range plant(t, f.path) {
		_, _, _, err := f.Open(t.Context(), name)
		require.ErrorIs(t, err, ErrNoSave, name)
		require.ErrorIs(t, f.Remove(name), ErrNoSave, name)
	}
	saves, err := f.List()
	require.NoError(t, err)
	require.Len(t, saves, 1)

	t.Log("# a link gives way to a save of its name, and what it led to stays")
	outside, err := os.Readlink(filepath.Join(f.path, "link"))
	require.NoError(t, err)
	save(t, v, alice, "link", []byte("new"))
	got, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "outside", string(got))

	t.Log("# a link to a folder is nobody's folder")
	theirs := v.Folder(bob)
	require.NoError(t, os.Symlink(f.path, theirs.path))
	_, err = theirs.List()
	require.Error(t, err)
	_, _, _, err = theirs.Open(t.Context(), "x")
	require.Error(t, err)
	require.Error(t, theirs.Remove("x"))
	key := arrive(t, v.Parts(), bob, []byte("his"))
	require.Error(t, theirs.Adopt(bob, key, "y"))
	require.FileExists(t, filepath.Join(f.path, "x"))
	require.NoFileExists(t, filepath.Join(f.path, "y"))
}
