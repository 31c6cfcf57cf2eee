package relevancy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestARoundMissesNobody: however items are added and removed, each that was
// there when a round began and is there when it ends was visited once.
func TestARoundMissesNobody(t *testing.T) {
	type place struct {
		at      int
		visited int
		old     bool // it was there when the round began
	}
	random := testkit.Rand(t)
	var s Slots[place]
	next := 0
	add := func() { p := new(place); p.at = s.Add(p) }
	remove := func(slot int) {
		left := len(s.Items) - 1
		next = s.Remove(slot, next, func(p *place, to int) { p.at = to })
		require.Len(t, s.Items, left)
		require.Nil(t, s.Items[:left+1][left])
		require.LessOrEqual(t, next, left)
	}
	for range 300 {
		for range random.IntN(20) {
			add()
		}
		for _, p := range s.Items {
			p.visited, p.old = 0, true
		}
		for next = 0; next < len(s.Items); {
			s.Items[next].visited++
			next++
			if random.IntN(3) == 0 {
				add()
			}
			for len(s.Items) > 0 && random.IntN(2) == 0 {
				remove(random.IntN(len(s.Items)))
			}
		}
		for i, p := range s.Items {
			require.Equal(t, i, p.at)
			if p.old {
				require.Equal(t, 1, p.visited)
			}
		}
	}
	for len(s.Items) > 0 {
		remove(0)
	}
	require.Zero(t, s.Add(new(place)))
}
