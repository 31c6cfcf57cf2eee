package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// A file that cannot be read kept all others from the server. As with restic it
// is left out, and the exit code says so.
func TestPutLeavesOutWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	require.NoError(t, os.Chmod(m.write("world/a", "1"), 0o644))
	m.write("world/secret", "2")
	require.NoError(t, os.Chmod(m.path("world/secret"), 0))
	require.NoError(t, os.Chmod(m.path("world"), 0o755))
	if os.Geteuid() == 0 {
		require.NoError(t, filepath.WalkDir(filepath.Dir(m.home), func(path string, _ fs.DirEntry, err error) error {
			require.NoError(t, err)
			return os.Chown(path, testkit.Nobody, testkit.Nobody)
		}))
		require.NoError(t, os.Chmod(filepath.Dir(m.dir), 0o755))
	}
	testkit.AsNobody(t, func() {
		r := m.run("", "put", m.path("world"))
		requireFailure(t, r, exitPartly, "lacks 1 file")
		require.Contains(t, r.stderr, "left out: secret: it cannot be read: permission denied\n")
		require.Contains(t, r.stdout, "1 B in 1 file")
		require.Contains(t, m.ok("get", "world", m.path("world")), "already has it")
		m.ok("put", m.path("world"), "--exclude", "secret")
		m.fails(exitFailed, []string{"put", m.path("world/secret")}, "permission denied")
	})
}

// A put of a file that was always written to did not say that it had tried again, nor what
// else there is to do. Here that is a file of the system's, which has more than its size says.
func TestAFileThatChangesAllTheTime(t *testing.T) {
	t.Parallel()
	m := newMachine(t, startServer(t).paste)
	m.fails(exitFailed, []string{"put", "/proc/version"}, "/proc/version: in each of 3 reads it changed meanwhile", "try again when nobody writes to it", "with --exclude")
}
