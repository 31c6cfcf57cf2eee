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

func TestParseTokens(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"one a line":        {"alpha-0123456789\nbeta-0123456789ab", []string{"alpha-0123456789", "beta-0123456789ab"}},
		"CRLF, blanks":      {"alpha-0123456789\r\n\r\n\t beta-0123456789ab \r\n", []string{"alpha-0123456789", "beta-0123456789ab"}},
		"byte order mark":   {"\ufeffalpha-0123456789\n", []string{"alpha-0123456789"}},
		"comments":          {"# admin\nalpha-0123456789\n  # bob's\n#beta-0123456789ab\n", []string{"alpha-0123456789"}},
		"trailing comments": {"alpha-0123456789 # laptop\nbeta-0123456789ab\t#phone\n", []string{"alpha-0123456789", "beta-0123456789ab"}},
		"# inside":          {"al#pha-0123456789\nbeta-0123456789ab#\n", []string{"al#pha-0123456789", "beta-0123456789ab#"}},
		"mark and comment":  {"\ufeff# tokens\r\nalpha-0123456789\r\n", []string{"alpha-0123456789"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tokens, err := parseTokens(test.text)
			require.NoError(t, err)
			require.Equal(t, test.want, tokens)
		})
	}
}

func TestReadTokensNamesWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"\n \n": "holds no token",
		"# alpha-0123456789\n# beta-0123456789ab\n": "holds no token",
		"# short\nhello": "line 2: the token has 5 bytes and needs at least 16",
		"ok-0123456789abcd\n" + strings.Repeat("x", maxTokenBytes+1): "line 2: the token has 4097 bytes, the limit is 4096",
		"ok-0123456789abcd\n\ntwo words\n":                           "line 3: a token has no spaces",
		"\xff\xfea\x00b\x00":                                         "line 1: the token is not visible UTF-8 text", // UTF-16
		"a\x00b":                                                     "line 1: the token is not visible UTF-8 text",
		"alpha-0123456789\rbeta-0123456789ab":                        "line 1: a token has no spaces",
	} {
		path := writeFile(t, text)
		_, err := ReadTokens(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
	missing := filepath.Join(t.TempDir(), "none")
	_, err := ReadTokens(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, missing)
}

func FuzzParseTokens(f *testing.F) {
	for _, s := range []string{"alpha-0123456789\nbeta-0123456789ab # x\n", "\ufeff# y\r\nz", "a b", "\xff", "#", " \ufeff0123456789abcdef"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := parseTokens(text)
		if err != nil {
			return
		}
		for _, token := range tokens {
			require.NotEmpty(t, token)
			require.NotContains(t, "#", token[:1])
			require.Equal(t, []string{token}, strings.Fields(token))
			require.Contains(t, text, token)
		}
		again, err := parseTokens(strings.Join(tokens, "\n"))
		require.NoError(t, err)
		require.Equal(t, tokens, again)
	})
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
