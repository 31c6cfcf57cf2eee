package drops

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	n := make(Names)
	require.Empty(t, n.String())
	n["Hero.Fire"] += 3
	n["(control)"]++
	n["Mill.Grind"] += 300
	require.Equal(t, "300 × Mill.Grind, 3 × Hero.Fire, 1 × (control)", n.String())
	for _, name := range []string{"c", "b", "a", "d"} {
		n[name]++
	}
	require.Equal(t, "300 × Mill.Grind, 3 × Hero.Fire, 1 × (control), 1 × a, 1 × b, 2 others", n.String())
}
