package pace

import "time"

// longerRounds is for how many rounds in a row an apparent queue must not move, although we
// yield to it, for us to take it for a longer path. Beside BBR a queue stays put for up to six
// rounds.
const longerRounds = 8

const (
	// A drain takes half of our bytes in flight out of the queue. Others still have as much in
	// flight as before, so whoever shares the queue, it must move by half of our share of a
	// round trip. stirPart is half of that, and maxStir limits it as a part of a whole round
	// trip, because jitter moves the queue too.
	stirPart, maxStir = 0.25, 0.125

	// oneWayPart is how much of that we allow for if the way back isn't any longer. Neighbours may
	// happen to add just what a drain takes out: in every seventh run beside them, their queue
	// seemed to stay. Besides, a round with few packets doesn't show what moves.
	oneWayPart = 0.25

	// bothStir is by what part of a round trip either direction may move in longerRounds rounds, if
	// both are longer. Beside jitter of 4 ms, the minimum delays of rounds differ by a millisecond.
	// A New Reno moves its queue on 20 Mbit/s by 5 ms in that time.
	bothStir = 1. / 16

	// stayRounds is how many rounds in a row must meet the queue of the round before, to show a
	// longer path.
	stayRounds = 2

	// knownPart is what part of the path's highest rate we must have to believe that the path is
	// longer. If we have less, others may fill up whatever we leave.
	knownPart = 0.25
)

// An unmoved tells a queue from a path that has become longer. It counts the rounds in a row in
// which the queue hardly moved.
//
// A queue that others share with us does move: they take the place that we leave in it, or drain
// it to take a look, and when it's full it drops packets. The delay of a longer path stays as it
// is.
type unmoved struct {
	rounds   int
	min, max time.Duration // minimum and maximum queue in these rounds
	fates    tally         // of the packets that were decided in these rounds
}

// roundOver adds a round. The count begins again unless the round counts, has met the queue of the
// rounds before, and no more was lost in all of them than the path loses at random.
func (u *unmoved) roundOver(r *round, grain time.Duration, random float64, counts bool) {
	if u.rounds == 0 {
		u.min, u.max = r.minQueue, r.maxQueue
	}
	u.min, u.max = min(u.min, r.minQueue), max(u.max, r.maxQueue)
	u.fates.add(r.fates)
	if !counts || u.drops(random) || u.max-u.min > max(u.min/32, 2*grain) {
		*u = unmoved{}
		return
	}
	u.rounds++
}

// drops reports whether the queue drops packets, because more is lost than random loss of the given
// share explains.
func (u *unmoved) drops(random float64) bool {
	if random < minTolerance {
		return u.fates.lost > 0
	}
	return u.fates.above(random)
}

// A stay notices a longer path sooner than an unmoved, while we drain much of a path, and
// whatever the jitter. It counts the rounds in a row whose queue was as long as in the round
// before, and as the longest since it began to stand.
//
// It takes the way back into account, because most routes become longer in both directions, while a
// queue only delays the way there.
type stay struct {
	rounds int
	max    time.Duration // longest standing queue of a round
}

// roundOver adds a round, in which part is our part of the path.
func (s *stay) roundOver(r *round, part float64, base time.Duration) {
	s.max = max(s.max, r.minQueue)
	moved := max((r.minQueue - r.prevMinQueue).Abs(), s.max-r.minQueue)
	limit := min(stirPart*part, maxStir)
	few := false
	if !r.backIsLonger() {
		// It may be a queue after all, so be strict.
		limit = oneWayPart * limit
		few = r.fates.count() < trainPackets
	}
	s.rounds++
	if few || float64(moved) > limit*float64(base) {
		s.rounds = 0
	}
}

// A bothWays notices a longer path while we compete, whatever the jitter. It counts the rounds
// in a row in which both directions were longer than their minimum delays, and neither moved. A
// queue delays only one direction. Two queues, one in each, would move.
type bothWays struct {
	rounds      int
	there, back span // by how much both directions exceed their minimum delays
}

// roundOver adds a round.
func (b *bothWays) roundOver(r *round, base time.Duration) {
	if b.rounds == 0 {
		b.there, b.back = span{r.minQueue, r.minQueue}, span{r.minBack.value, r.minBack.value}
	}
	b.there.add(r.minQueue)
	b.back.add(r.minBack.value)
	b.rounds++
	if !r.backIsLonger() || max(b.there.width(), b.back.width()).Seconds() > bothStir*base.Seconds() {
		b.rounds = 0
	}
}

// A span is the minimum and the maximum of some durations.
type span struct{ min, max time.Duration }

func (s *span) add(d time.Duration) { s.min, s.max = min(s.min, d), max(s.max, d) }

func (s *span) width() time.Duration { return s.max - s.min }
