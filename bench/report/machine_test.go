package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bench/scene"
)

func TestStamped(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	clean, dirty := debug.BuildSetting{Key: "vcs.modified", Value: "false"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	require.Equal(t, "0123456789ab", stamped([]debug.BuildSetting{commit, clean}))
	require.Equal(t, "0123456789ab-dirty", stamped([]debug.BuildSetting{commit, dirty}))
	require.Empty(t, stamped([]debug.BuildSetting{{Key: "-buildmode", Value: "exe"}}))
}

// TestDescribed asks git of a file that is tracked, of one that only lies in a
// repository, and of one in none.
func TestDescribed(t *testing.T) {
	folder := t.TempDir()
	file, other := filepath.Join(folder, "a.go"), filepath.Join(folder, "b.go")
	require.NoError(t, os.WriteFile(file, []byte("package a\n"), 0o600))
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.Empty(t, described(file), "no repository")
	git := func(args ...string) string {
		who := []string{"-C", folder, "-c", "user.name=x", "-c", "user.email=x@localhost"}
		out, err := exec.Command("git", append(who, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	git("add", "a.go")
	git("commit", "-q", "-m", "a")
	require.Equal(t, git("rev-parse", "--short=12", "HEAD"), described(file))
	require.Empty(t, described(other), "a copy in somebody else's repository")
	require.NoError(t, os.WriteFile(file, []byte("package b\n"), 0o600))
	require.Equal(t, git("rev-parse", "--short=12", "HEAD")+"-dirty", described(file))
	require.Empty(t, described("github.com/quivernet/quiver/bench/report/machine.go"), "-trimpath")
}

func TestRevisionUnknown(t *testing.T) {
	var b strings.Builder
	require.NoError(t, (&Scenes{Date: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Seeds: scene.Seeds{First: 1, Count: 1}}).WriteMarkdown(&b))
	require.Contains(t, b.String(), "2 January 2026: revision unknown, go")
	d := &Document{Sittings: []Sitting{{Took: time.Second}}}
	require.Contains(t, d.summary(), ": revision unknown, 1s.")
}
