package clock

import "time"

const (
	// punctualPeriod is the time in which we expect at least one tick to be on time. It spans many
	// ticks of any game.
	punctualPeriod = time.Second

	// maxLate is the longest that a tick can be late. If the game's clock falls behind by more, it
	// was set back, or it stands still.
	maxLate = time.Second
)

// A Game relates the clock of a game to real time.
//
// The game usually passes to a tick the time at which the tick was due: that of a time.Ticker, or a
// multiple of its step. If the previous tick took too long, the tick runs late, so the game's clock
// seems to lag by a different amount in every tick. A Game therefore relies on the most punctual
// tick of the last one to two seconds.
//
// The zero Game knows no tick. It is not safe for concurrent use.
type Game struct {
	recent      Beat      // the most punctual tick of the current period
	older       Beat      // that of the previous period; zero if there was none
	periodStart time.Time // when the current period began, in real time
}

// Tick adds a tick.
func (g *Game) Tick(b Beat) {
	switch {
	case g.recent.Real.IsZero(), b.lateBy(g.punctual()) > maxLate:
		*g = Game{recent: b, periodStart: b.Real}
	case b.Real.Sub(g.periodStart) >= punctualPeriod:
		g.older = g.recent
		g.recent = b
		g.periodStart = b.Real
	case b.lateBy(g.recent) < 0:
		g.recent = b
	}
}

// At converts a real time to the game's clock, assuming that the game's clock runs at real speed.
func (g *Game) At(moment time.Time) time.Time { return g.punctual().At(moment) }

// Of converts a time of the game's clock to real time.
func (g *Game) Of(game time.Time) time.Time { return g.punctual().Of(game) }

// punctual returns the most punctual of the latest ticks.
func (g *Game) punctual() Beat {
	if !g.older.Real.IsZero() && g.recent.lateBy(g.older) > 0 {
		return g.older
	}
	return g.recent
}
