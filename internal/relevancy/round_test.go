package relevancy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRoundDoesAllInItsPeriod: however long the Flushes are apart, and never
// more at once than they owe.
func TestRoundDoesAllInItsPeriod(t *testing.T) {
	const period = 100 * time.Millisecond
	for _, n := range []int{1, 7, 100, 10_000} {
		for _, step := range []time.Duration{time.Microsecond * 777, 16 * time.Millisecond, 33 * time.Millisecond, 90 * time.Millisecond} {
			var s Round
			done, most := 0, 0
			for passed := time.Duration(0); passed < 10*period; passed += step {
				due := s.Take(n, step, period)
				done += due
				most = max(most, due)
			}
			require.InDelta(t, 10*n, done, float64(n)*float64(step)/float64(period)+1, "%d, every %v", n, step)
			require.LessOrEqual(t, most, int(float64(n)*float64(step)/float64(period))+1)
			require.Equal(t, n, s.Take(n, time.Hour, period), "not more than a round")
		}
	}
	var s Round
	require.Zero(t, s.Take(5, 0, period))
	require.Zero(t, s.Take(0, time.Hour, period))
}

// TestSweepMissesNone: each item is visited once a period, in turn, even if
// others are removed from the list meanwhile.
func TestSweepMissesNone(t *testing.T) {
	const period = 100 * time.Millisecond
	items := []string{"a", "b", "c", "d", "e"}
	var s Sweep
	visit := func() (visited string) {
		for s.Begin(len(items), period/5, period); s.More(len(items)); {
			visited += items[s.Next(len(items))]
		}
		return visited
	}
	require.Equal(t, []string{"b", "c", "d"}, []string{visit(), visit(), visit()})
	s.Removed(3) // d, the last that was visited
	items = []string{"a", "b", "c", "e"}
	require.Equal(t, "e", visit()+visit())
	s.Removed(0)
	items = []string{"b", "c", "e"}
	require.Equal(t, "bce", visit()+visit()+visit()+visit()+visit())
	s.Begin(0, time.Hour, period)
	require.False(t, s.More(5))
	s.Begin(5, time.Hour, period)
	require.False(t, s.More(0), "all have left")
}
