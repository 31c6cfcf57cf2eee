package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheSlowerRateCounts, whichever of the two it is.
func TestTheSlowerRateCounts(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, row := range []struct{ own, world, most int }{{0, 0, 0}, {1000, 0, 1000}, {0, 1000, 1000}, {500, 1000, 500}, {1000, 500, 500}} {
		a := NewAllowance(row.own, NewMeter(row.world))
		require.Equal(t, row.most, a.MaxRate())
		require.Equal(t, row.most > 0, a.Limited())
		if row.most > 0 {
			a.Spend(now, Floor+row.most)
			require.Equal(t, time.Second, a.Play(now))
			require.Equal(t, 3*time.Second, a.Behind(now, 2*row.most))
		}
	}
}

// TestTurnsAtTheRateOfTheWorld: bulk of each connection is sent in turn, and a
// waiting connection keeps its turn, whatever play it sends.
func TestTurnsAtTheRateOfTheWorld(t *testing.T) {
	const turn = 100 * time.Millisecond
	world := NewMeter(turnBytes * 10)
	a, b := NewAllowance(0, world), NewAllowance(0, world)
	now := time.Unix(1000, 0)
	for range 3 { // half of the savings
		require.Zero(t, a.BookBulk(now))
		require.Zero(t, a.BookBulk(now), "asking again books no other turn")
		a.Spend(now, 1)
	}
	wait := a.BookBulk(now)
	require.Positive(t, wait)
	require.Less(t, wait, turn)
	a.Spend(now, 1)
	require.Equal(t, wait, a.BookBulk(now), "of play")
	require.Equal(t, wait+turn, b.BookBulk(now))
	for range 15 { // longer than bulkPatience in all
		now = now.Add(wait)
		require.Zero(t, a.BookBulk(now))
		a.Spend(now, 1)
		require.Equal(t, turn, b.BookBulk(now))
		now = now.Add(turn)
		require.Zero(t, b.BookBulk(now))
		b.Spend(now, 1)
		wait = a.BookBulk(now)
		require.Equal(t, turn, wait)
		require.Equal(t, 2*turn, b.BookBulk(now))
	}
}
