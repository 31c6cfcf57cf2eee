package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestLateTicks: whatever the ticks are late by, the game's clock is that of the punctual ones.
func TestLateTicks(t *testing.T) {
	random := testkit.Rand(t)
	real, game := time.Unix(1000, 0), time.Unix(50, 0)
	var g Game
	for i := range 1000 {
		due := time.Duration(i) * 33 * ms
		late := time.Duration(0)
		if i > 0 && random.IntN(3) > 0 {
			late = time.Duration(random.Int64N(int64(90 * ms)))
		}
		g.Tick(Beat{Game: game.Add(due), Real: real.Add(due + late)})
		require.Equal(t, game.Add(due+late), g.At(real.Add(due+late)))
		require.Equal(t, real.Add(due), g.Of(game.Add(due)))
	}
}

// TestGameIsSet: a clock that is set forward, or back by more than a tick can be late, is followed
// at once, and one that is set back by less within two periods.
func TestGameIsSet(t *testing.T) {
	for step, within := range map[time.Duration]time.Duration{
		time.Hour: 0, ms: 0, -time.Hour: 0, -maxLate - 1: 0, -maxLate / 2: 2 * punctualPeriod,
	} {
		now := time.Unix(1000, 0)
		var g Game
		set := now.Add(5 * time.Second)
		for end := now.Add(10 * time.Second); now.Before(end); now = now.Add(33 * ms) {
			game := now
			if !now.Before(set) {
				game = now.Add(step)
			}
			g.Tick(Beat{Game: game, Real: now})
			if now.Before(set) || now.Sub(set) >= within+33*ms {
				require.Equal(t, game, g.At(now), step)
			}
		}
	}
}

// TestGameStandsStill: a clock that stands still is never more than maxLate behind.
func TestGameStandsStill(t *testing.T) {
	for _, tick := range []time.Duration{10 * ms, 20 * ms, 25 * ms, 33 * ms, 50 * ms, 100 * ms} {
		now := time.Unix(1000, 0)
		game := now
		var g Game
		for range 500 {
			g.Tick(Beat{Game: game, Real: now})
			require.LessOrEqual(t, g.At(now).Sub(game), maxLate)
			now = now.Add(tick)
		}
	}
}

// TestGamesOfAnyYear: what the years are does not matter.
func TestGamesOfAnyYear(t *testing.T) {
	var g Game
	for _, game := range []time.Time{{}, time.Unix(1<<40, 0), {}, time.Unix(-1<<40, 0)} {
		now := time.Unix(1000, 0)
		g.Tick(Beat{Game: game, Real: now})
		require.True(t, g.At(now.Add(ms)).Equal(game.Add(ms)), game)
	}
}
