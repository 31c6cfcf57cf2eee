package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file is replaced as a whole, and no other file is left, even if that fails.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"a longer text", "short"} {
		require.NoError(t, Replace(path, []byte(text)))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder", "full"), 0o700))
	require.Error(t, Replace(filepath.Join(dir, "folder"), nil))
	require.Error(t, Replace(filepath.Join(dir, "none", "file"), nil))
	there, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, there, 2)
}
