package clock

import "time"

const (
	// The next question leaves askSoon after the last one while the clock is not settled, and askLater after it once it is, but then only if
	// other traffic travels. That makes ten questions in a second, or in ten round trips when those are longer.
	askSoon  = 100 * time.Millisecond
	askLater = time.Second
)

// Beat is one moment on two clocks: Game's, which may be set, run slowly or stand still, and the real one, which times packets.
type Beat struct{ Game, Real time.Time }

// At converts a real time to the game's clock, as if the game's clock ran at the real speed.
func (b Beat) At(moment time.Time) time.Time { return b.Game.Add(moment.Sub(b.Real)) }

// Of converts a time of the game's clock to real time.
func (b Beat) Of(game time.Time) time.Time { return b.Real.Add(game.Sub(b.Game)) }

// Questions decides when one end asks its peer for the time of the peer's game, with at most one question on its way, and keeps the
// resulting estimate. All its times are real times. The zero Questions asks nothing. It is not safe for concurrent use.
type Questions struct {
	wanted  bool      // Want was called
	traffic bool      // a message that is not about time travelled since the last question
	asking  bool      // a question is on its way
	asked   time.Time // when the last question left
	epoch   time.Time // the real time at which clock reads 0
	clock   Clock     // estimates the peer's game
}

// Want starts asking. first is true on the first call only.
func (q *Questions) Want(now time.Time) (first bool) {
	if q.wanted {
		return false
	}
	q.wanted, q.epoch = true, now
	return true
}

// Wanted reports whether Want was called.
func (q *Questions) Wanted() bool { return q.wanted }

// NoteTraffic notes that a message that is not about time travelled. Only then does a settled clock ask again, so that it wakes no idle
// connection.
func (q *Questions) NoteTraffic() { q.traffic = true }

// NeedsDriving reports whether a question will be due even if nothing happens, so that the owner must call Ask again later.
func (q *Questions) NeedsDriving() bool { return q.wanted && !q.asking && !q.clock.Settled() }

// Ask reports whether a question must leave now. If so, it counts the question as sent.
func (q *Questions) Ask(now time.Time) bool {
	since := now.Sub(q.asked)
	due := since >= askLater && q.traffic || since >= askSoon && !q.clock.Settled()
	if !q.wanted || q.asking || !due {
		return false
	}
	q.asking, q.asked, q.traffic = true, now, false
	return true
}

// Asking reports whether a question is on its way.
func (q *Questions) Asking() bool { return q.asking }

// Answer learns from the answer to the question on its way: peer is what the peer's game said when the answer left, in nanoseconds since
// 1970, held how long the peer had kept the question. It returns false for an answer that cannot be true.
func (q *Questions) Answer(peer int64, held time.Duration, arrived time.Time) (sound bool) {
	q.asking = false
	return q.clock.Add(Sample{Asked: q.asked.Sub(q.epoch), Answered: arrived.Sub(q.epoch), Held: held, Peer: peer})
}

// At returns the time of the peer's game now, and by how much that may be wrong. ok is false before the first answer. See [Clock.At].
func (q *Questions) At(now time.Time) (peer time.Time, bound time.Duration, ok bool) {
	told, bound, ok := q.clock.At(now.Sub(q.epoch))
	if !ok {
		return time.Time{}, 0, false
	}
	return time.Unix(0, told), bound, true
}

// Steps returns [Clock.Steps] of the estimate of the peer's game.
func (q *Questions) Steps() uint64 { return q.clock.Steps() }
