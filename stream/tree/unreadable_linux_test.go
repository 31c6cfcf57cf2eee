package tree

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// asNobody runs do with the rights of a user who owns nothing: root may read whatever its mode says.
func asNobody(t *testing.T, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 {
		const nobody = 65534
		_, err := unix.SetfsuidRetUid(nobody)
		require.NoError(t, err)
		defer unix.SetfsuidRetUid(0)
	}
	do()
}

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
	asNobody(t, func() {
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
