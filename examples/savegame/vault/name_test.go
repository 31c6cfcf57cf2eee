package vault

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{
		"world.sav", "World 1", "a", "späte Welt", "進行状況", "x_y-z.0", "console", "com10.sav", "lpt", strings.Repeat("a", MaxNameBytes),
	} {
		require.NoError(t, CheckName(good), good)
	}
	for _, bad := range []string{
		"", ".", "..", "../x", "a/b", `a\b`, "/etc/passwd", ".hidden", "-rf", " x", "x ", "x.", "a\x00b", "a\nb", "a:b", "a*", "\xff",
		"con", "NUL.txt", "Com1", "lpt9.sav", "aux .x", strings.Repeat("a", MaxNameBytes+1), strings.Repeat("é", MaxNameBytes),
	} {
		require.ErrorIs(t, CheckName(bad), ErrName, bad)
	}
}

func TestCheckNameTellsTheLimit(t *testing.T) {
	err := CheckName(strings.Repeat("x", 300))
	require.ErrorContains(t, err, "300 bytes, the limit is 100")
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"world.sav", "../x", "con", "\xff", "é."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if CheckName(s) == nil {
			require.NotContains(t, s, "/")
			require.NotContains(t, s, `\`)
			require.NotContains(t, []string{"", ".", ".."}, s)
		}
	})
}
