package tree

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/files"
)

// An empty path, as of a variable that is not set, was the current folder: a
// restore replaced that, and what stood there was lost.
func TestAnEmptyPathIsNoFolder(t *testing.T) {
	dir := folder(t)
	write(t, dir, map[string]string{"here/mine": "precious", "save/file": "x"})
	t.Chdir(filepath.Join(dir, "here"))
	from := scanned(t, ScanOptions{}, filepath.Join(dir, "save"))
	_, err := NewRestore(t.Context(), from.Manifest, "", RestoreOptions{})
	require.ErrorIs(t, err, errEmptyPath)
	require.ErrorIs(t, Tidy(t.Context(), "", nil), errEmptyPath)
	_, err = Scan(t.Context(), []string{dir, ""}, ScanOptions{})
	require.ErrorIs(t, err, errEmptyPath)
	require.FileExists(t, "mine")
	requireTidy(t, filepath.Join(dir, "here"))

	require.NoError(t, begun(t, from.Manifest, ".", RestoreOptions{}).Close()) // who says so means it
}

// What nothing can replace was found out by Commit, when all had been fetched,
// and again by each restore after it.
func TestATargetThatNothingReplaces(t *testing.T) {
	dir := folder(t)
	write(t, dir, map[string]string{"save/file": "x", "volume/mine": "x"})
	from, volume := scanned(t, ScanOptions{}, filepath.Join(dir, "save")), filepath.Join(dir, "volume")
	t.Cleanup(func() { mounted = files.Mounted })
	mounted = func(p string) bool { return p == volume }
	for target, why := range map[string]string{
		volume: "mounted",
		filepath.VolumeName(dir) + string(filepath.Separator): "root of a file system",
		filepath.Join(dir, strings.Repeat("n", 1000)):         "",
	} {
		_, err := NewRestore(t.Context(), from.Manifest, target, RestoreOptions{})
		require.ErrorContains(t, err, why)
	}
	requireTidy(t, volume)
	restored(t, from, filepath.Join(volume, "save"), RestoreOptions{})
}
