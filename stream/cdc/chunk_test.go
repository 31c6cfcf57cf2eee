package cdc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDigestAsText(t *testing.T) {
	want := Sum([]byte("one"))
	text, err := want.MarshalText()
	require.NoError(t, err)
	require.Equal(t, want.String(), string(text))
	var got Digest
	require.NoError(t, got.UnmarshalText(text))
	require.Equal(t, want, got)
	for _, bad := range []string{"", string(text[1:]), string(text) + "00", "x" + string(text[1:])} {
		require.Error(t, got.UnmarshalText([]byte(bad)), bad)
	}
}
