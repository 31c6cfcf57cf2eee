package vault

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestIdentify(t *testing.T) {
	g, err := NewGuard(writeFile(t, "# alice and bob\nalpha\nbeta # bob\n"))
	require.NoError(t, err)
	alpha, err := g.Identify([]byte("alpha"))
	require.NoError(t, err)
	require.Equal(t, IdentityOf([]byte("alpha")), alpha)
	require.Regexp(t, "^[0-9a-f]{32}$", alpha)
	beta, err := g.Identify([]byte("beta"))
	require.NoError(t, err)
	require.NotEqual(t, alpha, beta)
	for _, wrong := range []string{"", "alph", "alpha ", "alpha\nbeta", "# alice and bob", "#", "beta # bob"} {
		_, err = g.Identify([]byte(wrong))
		require.ErrorIs(t, err, ErrToken, wrong)
	}
}

// rewrite changes a file in place and keeps its time.
func rewrite(t *testing.T, path, text string, modified time.Time) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chtimes(path, modified, modified))
}

func requireKnown(t *testing.T, g *Guard, token string, known bool) {
	t.Helper()
	_, err := g.Identify([]byte(token))
	if known {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, ErrToken)
	}
}

// A guess must not cost the reading of a file. That the file is not read shows where it changed and nobody can see it.
func TestTokenFileIsReadWhenItChanged(t *testing.T) {
	path := writeFile(t, "alpha\n")
	old := time.Now().Add(-time.Hour)
	rewrite(t, path, "alpha\n", old)
	g, err := NewGuard(path)
	require.NoError(t, err)
	rewrite(t, path, "gamma\n", old)
	requireKnown(t, g, "alpha", true)
	requireKnown(t, g, "gamma", false)

	t.Log("# another time")
	rewrite(t, path, "gamma\n", old.Add(time.Second))
	requireKnown(t, g, "alpha", false)
	requireKnown(t, g, "gamma", true)

	t.Log("# another size")
	rewrite(t, path, "gamma\nalpha\n", old.Add(time.Second))
	requireKnown(t, g, "alpha", true)

	t.Log("# another file of the same size and time")
	other := filepath.Join(filepath.Dir(path), "other")
	rewrite(t, other, "delta\nalpha\n", old.Add(time.Second))
	require.NoError(t, os.Rename(other, path))
	requireKnown(t, g, "gamma", false)
	requireKnown(t, g, "delta", true)
}

// Two changes may fall into one tick of the file system's clock.
func TestTokenFileThatIsBeingWrittenIsReadAgain(t *testing.T) {
	path := writeFile(t, "alpha\n")
	now := time.Now()
	rewrite(t, path, "alpha\n", now)
	g, err := NewGuard(path)
	require.NoError(t, err)
	rewrite(t, path, "gamma\n", now)
	requireKnown(t, g, "gamma", true)
}

func TestNobodyIsLetInWithoutTheTokenFile(t *testing.T) {
	path := writeFile(t, "alpha\n")
	g, err := NewGuard(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	_, err = g.Identify([]byte("alpha"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("two words\n"), 0o600))
	_, err = g.Identify([]byte("alpha"))
	require.ErrorContains(t, err, "line 1")
	require.NoError(t, os.WriteFile(path, []byte("alpha\n"), 0o600))
	requireKnown(t, g, "alpha", true)
}
