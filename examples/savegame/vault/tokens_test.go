package vault

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestReadTokens(t *testing.T) {
	tokens, err := ReadTokens(writeFile(t, "alpha\r\n\n  beta \ngamma"))
	require.NoError(t, err)
	require.Equal(t, []string{"alpha", "beta", "gamma"}, tokens)
}

func TestReadTokensNamesWhatIsWrong(t *testing.T) {
	_, err := ReadTokens(writeFile(t, "\n \n"))
	require.ErrorContains(t, err, "holds no token")
	_, err = ReadTokens(writeFile(t, "ok\n"+strings.Repeat("x", maxTokenBytes+1)))
	require.ErrorContains(t, err, "line 2 has 4097 bytes, the limit is 4096")
	missing := filepath.Join(t.TempDir(), "none")
	_, err = ReadTokens(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, missing)
}

func TestMakeTokensOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.txt")
	made, err := MakeTokens(path)
	require.NoError(t, err)
	require.True(t, made)
	first, err := ReadTokens(path)
	require.NoError(t, err)
	require.Len(t, first, 1)
	made, err = MakeTokens(path)
	require.NoError(t, err)
	require.False(t, made)
	second, err := ReadTokens(path)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

func TestIdentify(t *testing.T) {
	path := writeFile(t, "alpha\nbeta\n")
	alpha, err := Identify(path, []byte("alpha"))
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{32}$", alpha)
	require.NotContains(t, alpha, "alpha")
	beta, err := Identify(path, []byte("beta"))
	require.NoError(t, err)
	require.NotEqual(t, alpha, beta)
	for _, wrong := range []string{"", "alph", "alpha ", "alpha\nbeta"} {
		_, err = Identify(path, []byte(wrong))
		require.ErrorIs(t, err, ErrToken, wrong)
	}
}
