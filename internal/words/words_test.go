package words

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestCut(t *testing.T) {
	for _, row := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"fits", 4, "fits"},
		{"longer", 4, "l…"},
		{"éé", 4, "éé"},
		{"ééé", 5, "é…"},
		{"ééé", 4, "…"},
		{"longer", 2, "lo"},
		{"ééé", 1, ""},
		{"a\xffb", 9, "ab"},
		{"a\xffbcde", 5, "a…"},
	} {
		require.Equal(t, row.want, Cut(row.text, row.limit), "%q to %d", row.text, row.limit)
	}
	for limit := range 20 {
		cut := Cut(strings.Repeat("é漢x", 9), limit)
		require.LessOrEqual(t, len(cut), limit)
		require.True(t, utf8.ValidString(cut))
	}
}

func TestPlural(t *testing.T) {
	require.Equal(t, "0 bytes", Bytes(0))
	require.Equal(t, "1 byte", Bytes(1))
	require.Equal(t, "2 bytes", Bytes(2))
	require.Equal(t, "1 entry", Plural(1, "entry", "entries"))
	require.Equal(t, "1 post is", Plural(int64(1), "post is", "posts are"))
	require.Equal(t, "-1 entries", Plural(-1, "entry", "entries"))
}
