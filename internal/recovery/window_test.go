package recovery

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestWindow: a window agrees with a set.
func TestWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(testkit.Seed(t), 1))
	for range 20 {
		var w Window
		set := make(map[uint64]bool)
		steps := []int{1, 3, 70, WindowSize / 2, 3 * WindowSize}[r.IntN(5)]
		for range 3000 {
			n := w.Next + uint64(r.IntN(steps))
			if r.IntN(2) == 0 && w.Next > 0 {
				n = w.Next - 1 - min(w.Next-1, uint64(r.IntN(WindowSize)))
			}
			if w.Below(n) {
				require.Less(t, n, w.Floor())
				continue
			}
			require.GreaterOrEqual(t, n, w.Floor())
			require.Equal(t, set[n], w.Has(n), "%d", n)
			w.Mark(n)
			set[n] = true
		}
		checkRuns(t, &w, set)
	}
}

func checkRuns(t *testing.T, w *Window, set map[uint64]bool) {
	n := w.Next - 1
	for {
		run := w.Run(n, w.Floor())
		for i := range run {
			require.Equal(t, set[n], set[n-i])
		}
		if n-w.Floor() < run {
			require.Equal(t, n-w.Floor()+1, run)
			return
		}
		n -= run
		require.NotEqual(t, set[n], set[n+1])
	}
}
