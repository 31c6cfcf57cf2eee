package vault

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestIdentify(t *testing.T) {
	g, err := NewGuard(writeFile(t, "# alice and bob\nalpha-0123456789\nbeta-0123456789ab # bob\n"))
	require.NoError(t, err)
	alpha, err := g.Identify([]byte("alpha-0123456789"))
	require.NoError(t, err)
	require.Equal(t, IdentityOf([]byte("alpha-0123456789")), alpha)
	require.Regexp(t, "^[0-9a-f]{32}$", alpha)
	beta, err := g.Identify([]byte("beta-0123456789ab"))
	require.NoError(t, err)
	require.NotEqual(t, alpha, beta)
	for _, wrong := range []string{"", "alph", "alpha-0123456789 ", "alpha-0123456789\nbeta-0123456789ab", "# alice and bob", "#", "beta-0123456789ab # bob"} {
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
	path := writeFile(t, "alpha-0123456789\n")
	old := time.Now().Add(-time.Hour)
	rewrite(t, path, "alpha-0123456789\n", old)
	g, err := NewGuard(path)
	require.NoError(t, err)
	rewrite(t, path, "gamma-0123456789\n", old)
	requireKnown(t, g, "alpha-0123456789", true)
	requireKnown(t, g, "gamma-0123456789", false)

	t.Log("# another time")
	rewrite(t, path, "gamma-0123456789\n", old.Add(time.Second))
	requireKnown(t, g, "alpha-0123456789", false)
	requireKnown(t, g, "gamma-0123456789", true)

	t.Log("# another size")
	rewrite(t, path, "gamma-0123456789\nalpha-0123456789\n", old.Add(time.Second))
	requireKnown(t, g, "alpha-0123456789", true)

	t.Log("# another file of the same size and time")
	other := filepath.Join(filepath.Dir(path), "other")
	rewrite(t, other, "delta-0123456789\nalpha-0123456789\n", old.Add(time.Second))
	require.NoError(t, os.Rename(other, path))
	requireKnown(t, g, "gamma-0123456789", false)
	requireKnown(t, g, "delta-0123456789", true)
}

// Two changes may fall into one tick of the file system's clock.
func TestTokenFileThatIsBeingWrittenIsReadAgain(t *testing.T) {
	path := writeFile(t, "alpha-0123456789\n")
	now := time.Now()
	rewrite(t, path, "alpha-0123456789\n", now)
	g, err := NewGuard(path)
	require.NoError(t, err)
	rewrite(t, path, "gamma-0123456789\n", now)
	requireKnown(t, g, "gamma-0123456789", true)
}

func TestNobodyIsLetInWithoutTheTokenFile(t *testing.T) {
	path := writeFile(t, "alpha-0123456789\n")
	g, err := NewGuard(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	_, err = g.Identify([]byte("alpha-0123456789"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("two words\n"), 0o600))
	_, err = g.Identify([]byte("alpha-0123456789"))
	require.ErrorContains(t, err, "line 1")
	require.NoError(t, os.WriteFile(path, []byte("alpha-0123456789\n"), 0o600))
	requireKnown(t, g, "alpha-0123456789", true)
}
