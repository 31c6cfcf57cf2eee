package vault

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTargetPublishes(t *testing.T) {
	dir := t.TempDir()
	target, err := OpenTarget(dir, "one.sav")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "one.sav"), target.Path)
	content := []byte("content")
	require.False(t, target.Has(sha256.Sum256(content), 7))
	key := arrive(t, target.Store(), "", content)
	require.NoFileExists(t, target.Path)
	require.NoError(t, target.Publish("", key))
	got, err := os.ReadFile(target.Path)
	require.NoError(t, err)
	require.Equal(t, content, got)
	require.True(t, target.Has(sha256.Sum256(content), 7))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside the file")
}

func TestTargetKeepsTheModeOfWhatItReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o640))
	before, err := os.Stat(path)
	require.NoError(t, err)
	target, err := OpenTarget(path, "name")
	require.NoError(t, err)
	require.NoError(t, target.Publish("", arrive(t, target.Store(), "", []byte("new"))))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, before.Mode(), after.Mode())
}

func TestTargetInNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "x")
	_, err := OpenTarget(path, "name")
	require.ErrorContains(t, err, filepath.Dir(path))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTargetExplains(t *testing.T) {
	target, err := OpenTarget(t.TempDir(), "x")
	require.NoError(t, err)
	err = target.Explain("", "key", &os.PathError{Op: "write", Path: "part", Err: syscall.ENOSPC})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, target.Path)
	require.Equal(t, ErrNoSave, target.Explain("", "key", ErrNoSave))
}

func TestOpenSource(t *testing.T) {
	s, err := OpenSource(writeFile(t, "abc"))
	require.NoError(t, err)
	require.Equal(t, int64(3), s.Size)
	require.Equal(t, sha256.Sum256([]byte("abc")), s.Digest)
	require.NoError(t, s.Close())
	missing := filepath.Join(t.TempDir(), "none")
	_, err = OpenSource(missing)
	require.ErrorContains(t, err, missing)
	dir := t.TempDir()
	_, err = OpenSource(dir)
	require.ErrorContains(t, err, dir)
}
