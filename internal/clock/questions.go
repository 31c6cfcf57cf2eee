package clock

import "time"

const (
	// Who wants to know asks again this long after it asked last: while it does not know the peer's time well, and afterwards when
	// something else travels. Ten questions make a second, or ten round trips when those are longer.
	askSoon  = 100 * time.Millisecond
	askLater = time.Second
)

// Beat joins the game's clock, which may be set, run slowly or stand still, and the one that packets are timed with.
type Beat struct{ Game, Real time.Time }

// At returns what the game's clock would say at a time of the other, if the world were driven then.
func (b Beat) At(real time.Time) time.Time { return b.Game.Add(real.Sub(b.Real)) }

// Of returns when something was by the other clock that was at a time of the game's.
func (b Beat) Of(game time.Time) time.Time { return b.Real.Add(game.Sub(b.Game)) }

// Questions are those of one end for the time of its peer's game, of which one at a time is on its way. All times are real ones. The
// zero Questions asks nothing.
type Questions struct {
	wanted  bool      // Want was called
	traffic bool      // something but times travelled since the last question
	asking  bool      // a question is on its way
	asked   time.Time // when the last one left
	epoch   time.Time // of clock
	clock   Clock     // of the peer's game
}

// Want begins the questions, and reports whether they had not begun.
func (q *Questions) Want(now time.Time) (first bool) {
	first = !q.wanted
	if first {
		q.wanted, q.epoch = true, now
	}
	return first
}

// Wanted reports whether they have begun.
func (q *Questions) Wanted() bool { return q.wanted }

// NoteTraffic notes that something else than times travelled: a settled clock asks again only then, so as to wake no idle connection.
func (q *Questions) NoteTraffic() { q.traffic = true }

// NeedsDriving reports whether a question will be due though nothing happens, so that its owner has to look again.
func (q *Questions) NeedsDriving() bool { return q.wanted && !q.asking && !q.clock.Settled() }

// Ask reports whether a question is to leave now, and takes it for gone.
func (q *Questions) Ask(now time.Time) bool {
	if !q.due(now) {
		return false
	}
	q.asking, q.asked, q.traffic = true, now, false
	return true
}

func (q *Questions) due(now time.Time) bool {
	if !q.wanted || q.asking {
		return false
	}
	since := now.Sub(q.asked)
	return since >= askLater && q.traffic || since >= askSoon && !q.clock.Settled()
}

// Asking reports whether a question is on its way.
func (q *Questions) Asking() bool { return q.asking }

// Answer takes the answer to the question on its way: what the peer's clock said when the answer left, in nanoseconds since 1970, and for
// how long it had held the question. It reports whether that was sound.
func (q *Questions) Answer(peer int64, held time.Duration, arrived time.Time) (sound bool) {
	q.asking = false
	return q.clock.Add(Sample{Asked: q.asked.Sub(q.epoch), Answered: arrived.Sub(q.epoch), Held: held, Peer: peer})
}

// At returns what the peer's game says now, and how far off that may be; false before the first answer. See [Clock.At].
func (q *Questions) At(now time.Time) (peer time.Time, bound time.Duration, ok bool) {
	told, bound, ok := q.clock.At(now.Sub(q.epoch))
	if !ok {
		return time.Time{}, 0, false
	}
	return time.Unix(0, told), bound, true
}

// Steps is [Clock.Steps] of the peer's.
func (q *Questions) Steps() uint64 { return q.clock.Steps() }
