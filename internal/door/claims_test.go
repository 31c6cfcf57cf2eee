package door

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClaims(t *testing.T) {
	one, two, three := &client{1}, &client{2}, &client{3}
	none := NewClaims[client](0, false)
	_, _, refused := none.Claim("ann", one)
	require.False(t, refused)
	require.Empty(t, none.byIdentity, "without a limit nothing is kept")

	newest := NewClaims[client](2, false)
	for _, c := range []*client{one, two, two} {
		replaced, _, _ := newest.Claim("ann", c)
		require.Empty(t, replaced)
	}
	replaced, _, _ := newest.Claim("bob", one)
	require.Empty(t, replaced)
	replaced, _, _ = newest.Claim("ann", three)
	require.Equal(t, []*client{one}, replaced, "the oldest")
	replaced, _, _ = newest.Claim("", three)
	require.Empty(t, replaced)

	oldest := NewClaims[client](1, true)
	_, _, refused = oldest.Claim("ann", one)
	require.False(t, refused)
	_, others, refused := oldest.Claim("ann", two)
	require.True(t, refused)
	require.Equal(t, 1, others)
	oldest.Disclaim("ann", two)
	oldest.Disclaim("ann", one)
	require.Empty(t, oldest.byIdentity)
}
