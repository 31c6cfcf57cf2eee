package statnet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHolders(t *testing.T) {
	var h Holders
	require.Empty(t, h.String())
	h.Add("open Player", 1)
	for range 3 {
		h.Add("Player.Fire", 2)
	}
	require.Equal(t, "1 × open Player (1 entry), 3 × Player.Fire (6 entries)", h.String())
	for n := range 4 {
		h.Add(fmt.Sprintf("Other%d", n), 1)
	}
	require.Contains(t, h.String(), "1 × Other2 (1 entry) and 1 other method")
	h.Add("Player.Jump", 1)
	require.Contains(t, h.String(), "1 × Other2 (1 entry) and 2 other methods")
}
