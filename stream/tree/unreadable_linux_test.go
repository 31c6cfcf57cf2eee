package tree

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// One file that cannot be read kept all others from being put.
func TestWhatCannotBeReadIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"save/a": "1", "save/b/secret": "2", "save/c": "3", "save/locked/d": "4"})
	for _, name := range []string{"save/b/secret", "save/locked"} {
		p := filepath.Join(dir, name)
		require.NoError(t, os.Chmod(p, 0))
		t.Cleanup(func() { _ = os.Chmod(p, 0o700) }) // so that it can be removed
	}
	for _, name := range []string{filepath.Dir(dir), dir, filepath.Join(dir, "save")} {
		require.NoError(t, os.Chmod(name, 0o755))
	}
	testkit.AsNobody(t, func() {
		_, err := Scan(t.Context(), []string{filepath.Join(dir, "save")}, ScanOptions{})
		require.ErrorIs(t, err, os.ErrPermission)
		s := scanned(t, ScanOptions{SkipUnreadable: true}, filepath.Join(dir, "save"))
		require.Equal(t, []string{".", "a", "b", "c"}, pathsOf(s))
		require.Equal(t, []Note{
			{"b/secret", "it cannot be read: permission denied", true},
			{"locked", "it cannot be read: permission denied", true},
		}, s.Notes)
		_, err = Scan(t.Context(), []string{filepath.Join(dir, "save/locked")}, ScanOptions{SkipUnreadable: true})
		require.ErrorIs(t, err, os.ErrPermission, "a path that was said is meant")
	})
}

// A process with too many open files once left out those that it could not
// open, as if they were unreadable.
func TestAScanWithTooManyOpenFilesFails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "1", "b/c/d": "2"})
	next, err := os.Open(dir)
	require.NoError(t, err)
	first := uint64(next.Fd())
	require.NoError(t, next.Close())
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	few := limit
	for few.Cur = first; ; few.Cur++ {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
		s, err := Scan(t.Context(), []string{dir}, ScanOptions{SkipUnreadable: true})
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
		if err == nil {
			require.Equal(t, []string{".", "a", "b", "b/c", "b/c/d"}, pathsOf(s))
			few.Cur = first + 1 // which s has open
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
			_, err = s.Chunk(nil, s.Manifest.Chunks()[0])
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
			require.ErrorIs(t, err, syscall.EMFILE)
			require.NotErrorIs(t, err, ErrChanged)
			require.NoError(t, s.Close())
			return
		}
		require.ErrorIs(t, err, syscall.EMFILE)
	}
}
