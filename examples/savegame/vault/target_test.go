package vault

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

func requireHas(t *testing.T, target *Target, content []byte, want bool) {
	t.Helper()
	had, err := target.Has(t.Context(), stream.BLAKE3.Of(content), int64(len(content)))
	require.NoError(t, err)
	require.Equal(t, want, had)
}

func TestTargetPublishes(t *testing.T) {
	dir := t.TempDir()
	target, err := OpenTarget(dir, "one.sav")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "one.sav"), target.Path)
	content := []byte("content")
	requireHas(t, target, content, false)
	arrive(t, target.Store(), "", content)
	require.NoFileExists(t, target.Path)
	require.NoError(t, target.Publish(t.Context(), "", stream.BLAKE3.Of(content), 7))
	got, err := os.ReadFile(target.Path)
	require.NoError(t, err)
	require.Equal(t, content, got)
	requireHas(t, target, content, true)
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
	arrive(t, target.Store(), "", []byte("new"))
	require.NoError(t, target.Publish(t.Context(), "", stream.BLAKE3.Of([]byte("new")), 3))
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
	require.NoError(t, s.Hash(t.Context()))
	require.Equal(t, stream.BLAKE3.Of([]byte("abc")), s.Digest)
	require.Equal(t, stream.Progress{Sent: 3, Acked: 3, Total: 3}, s.Progress())
	require.NoError(t, s.Check())
	require.NoError(t, s.Close())
	missing := filepath.Join(t.TempDir(), "none")
	_, err = OpenSource(missing)
	require.ErrorContains(t, err, missing)
	dir := t.TempDir()
	_, err = OpenSource(dir)
	require.ErrorContains(t, err, dir)
}

func TestHashingIsCanceled(t *testing.T) {
	s, err := OpenSource(writeFile(t, "abc"))
	require.NoError(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	require.ErrorIs(t, s.Hash(ctx), errStop)
	require.NoError(t, s.Hash(t.Context()), "and begins anew")
}

var errStop = errors.New("stop")

func TestChangedSource(t *testing.T) {
	path := writeFile(t, "abcdef")
	s, err := OpenSource(path)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, os.WriteFile(path, []byte("abc"), 0o600))
	require.ErrorIs(t, s.Check(), ErrChanged)
	require.ErrorContains(t, s.Check(), path)
	require.ErrorIs(t, s.Hash(t.Context()), ErrChanged)
}
