//go:build !windows

package disk

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

// Somebody may put a link or a pipe where a file of the store is expected:
// nothing is read or written through it.
func TestPlantedFilesAreNotOpened(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("precious"), 0o600))
	plants := map[string]func(path string) error{
		"link":   func(path string) error { return os.Symlink(outside, path) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	}
	for name, put := range plants {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := New(dir)
			store(t, s, mine, "other", []byte("x"))
			base := s.basePath(mine, "k")
			require.NoError(t, put(base+partSuffix))
			require.NoError(t, put(blobName(base, stream.SHA256.Of(nil))))
			_, err := s.Open(mine, "k", 3)
			require.ErrorIs(t, err, errNotRegular)
			require.Error(t, s.Remove(mine, "k"))
			requireMissing(t, s, mine, "k")
			require.NoError(t, s.Trim(mine, 0, 0))
			requireMissing(t, s, mine, "other")
			got, err := os.ReadFile(outside)
			require.NoError(t, err)
			require.Equal(t, "precious", string(got))
		})
	}
}

func TestPlantedFolderIsNotEntered(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := New(dir)
	store(t, New(outside), mine, "k", []byte("theirs"))
	require.NoError(t, os.Symlink(filepath.Join(outside, hashName(mine)), filepath.Join(dir, hashName(mine))))
	_, err := s.Lookup(mine, "k")
	require.ErrorIs(t, err, errNotFolder)
	require.NotErrorIs(t, err, fs.ErrNotExist)
	_, err = s.Open(mine, "k", 3)
	require.ErrorIs(t, err, errNotFolder)
	require.ErrorIs(t, s.Remove(mine, "k"), errNotFolder)
	require.ErrorIs(t, s.Trim(mine, 0, 0), errNotFolder)
	store(t, s, "somebody else", "k", []byte("x"))
	require.Len(t, listing(t, outside), 1)
}
