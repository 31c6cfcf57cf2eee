package clock

import "time"

const (
	// Until the clock is settled, we ask every askSoon, which makes ten questions in a second, or
	// in ten round trips if those take longer. From then on we ask every askLater, but only if
	// there is other traffic.
	askSoon  = 100 * time.Millisecond
	askLater = time.Second
)

// A Beat is one moment on two clocks: the game's, which may be set, run slowly or stand still, and
// the real one, by which packets are timed.
type Beat struct{ Game, Real time.Time }

// At converts a real time to the game's clock, assuming that the game's clock runs at real speed.
func (b Beat) At(moment time.Time) time.Time { return b.Game.Add(moment.Sub(b.Real)) }

// Of converts a time of the game's clock to real time.
func (b Beat) Of(game time.Time) time.Time { return b.Real.Add(game.Sub(b.Game)) }

// lateBy returns by how much b is later than one would expect after another tick.
func (b Beat) lateBy(other Beat) time.Duration { return other.At(b.Real).Sub(b.Game) }

// Questions decides when to ask the peer for the time of its game, with at most one question in
// flight, and estimates the peer's clock from the answers.
//
// All times are real times. The zero Questions asks nothing. It is not safe for concurrent use.
type Questions struct {
	wanted  bool      // Want was called
	traffic bool      // NoteTraffic was called since the last question
	asking  bool      // a question is in flight
	asked   time.Time // when the last question was sent
	epoch   time.Time // the real time at which clock reads 0
	clock   Clock     // estimates the clock of the peer's game
}

// Want starts asking. first is true on the first call only.
func (q *Questions) Want(now time.Time) (first bool) {
	if q.wanted {
		return false
	}
	q.wanted = true
	q.epoch = now
	return true
}

// Wanted reports whether Want was called.
func (q *Questions) Wanted() bool { return q.wanted }

// NoteTraffic is called when a message that is not about time was sent or received. Once the clock
// is settled, we ask only after such a message, so as not to wake an idle connection.
func (q *Questions) NoteTraffic() { q.traffic = true }

// NeedsDriving reports whether a question will be due even if nothing happens. If so, the owner
// must call Ask again later.
func (q *Questions) NeedsDriving() bool { return q.wanted && !q.asking && !q.clock.Settled() }

// Ask returns true if a question must be sent now, which then counts as sent.
func (q *Questions) Ask(now time.Time) bool {
	since := now.Sub(q.asked)
	due := since >= askLater && q.traffic || since >= askSoon && !q.clock.Settled()
	if !q.wanted || q.asking || !due {
		return false
	}
	q.asking = true
	q.asked = now
	q.traffic = false
	return true
}

// Asking reports whether a question is in flight.
func (q *Questions) Asking() bool { return q.asking }

// Answer adds the answer to the question in flight. peer is the time of the peer's game when it
// sent the answer, in nanoseconds since 1970, and held is how long it held the question. Answer
// returns false if the answer can't be true.
func (q *Questions) Answer(peer int64, held time.Duration, arrived time.Time) (sound bool) {
	q.asking = false
	return q.clock.Add(Sample{
		Asked:    q.asked.Sub(q.epoch),
		Answered: arrived.Sub(q.epoch),
		Held:     held,
		Peer:     peer,
	})
}

// At returns what time it is now in the peer's game. bound limits the error of peer. ok is false
// before the first answer. At remembers its result, as [Clock.At] does.
func (q *Questions) At(now time.Time) (peer time.Time, bound time.Duration, ok bool) {
	told, bound, ok := q.clock.At(now.Sub(q.epoch))
	if !ok {
		return time.Time{}, 0, false
	}
	return time.Unix(0, told), bound, true
}

// Steps returns [Clock.Steps] of the estimate of the peer's game.
func (q *Questions) Steps() uint64 { return q.clock.Steps() }
