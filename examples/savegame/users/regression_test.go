package users

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/versions"
)

// A user was added who could own nothing: every request of his was refused for his name.
func TestEveryUserCanOwnVersions(t *testing.T) {
	for _, name := range []string{"x²", "Ⅷ", "½"} {
		if CheckUser(name) == nil {
			require.NoError(t, versions.CheckName(name), name)
		}
	}
}

// One user's open codes kept all others from having any.
func TestCodesOfOneUserAreInNobodysWay(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := NewCodes(func(_, _ string) (string, error) { return "token", nil })
	for range 2 * maxCodes {
		_, _ = c.New("mallory", now)
	}
	_, err := c.New("ann", now)
	require.NoError(t, err)
}
