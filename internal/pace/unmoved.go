package pace

import "time"

// longerRounds is how many rounds in a row an apparent queue must stay the same, although we yield
// to it, to show that the path is longer. Beside BBR, a queue stays the same for up to six rounds.
const longerRounds = 8

const (
	// A drain takes half of our bytes in flight out of the queue. Since other flows still have as
	// much in flight as before, the queue must move by half of our share of a round trip, whoever
	// shares it. stirPart is half of that, and maxStir limits it as a part of a whole round trip,
	// because jitter moves the queue too.
	stirPart, maxStir = 0.25, 0.125

	// oneWayPart is how much of that we tolerate if the way back isn't longer too. Other flows may
	// happen to add exactly what a drain takes out, so that their queue would seem to stay in one
	// of seven runs. Besides, a round of few packets doesn't show what moves.
	oneWayPart = 0.25

	// bothStir is the part of a round trip by which either direction may move in longerRounds
	// rounds if both are longer. With jitter of 4 ms, the minimum delays of rounds differ by a
	// millisecond, while a New Reno at 20 Mbit/s moves its queue by 5 ms in that time.
	bothStir = 1. / 16

	// stayRounds is how many rounds in a row must meet the queue of the round before to show a
	// longer path.
	stayRounds = 2

	// knownPart is the part of the path's highest rate that we must have to conclude that the path
	// is longer. If we have less, others may fill up whatever we leave.
	knownPart = 0.25
)

// An unmoved distinguishes a queue from a path that became longer. It counts the rounds in a row in
// which the queue hardly moved.
//
// A queue that others share with us does move, because they take the place that we leave in it or
// drain it themselves, and when it's full it drops packets. The delay of a longer path doesn't
// change.
type unmoved struct {
	rounds   int
	min, max time.Duration // minimum and maximum queue in these rounds
	fates    tally         // of packets, known in these rounds
}

// roundOver adds a round. The count starts over unless the round counts, met the same queue as the
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

// drops reports whether the queue drops packets: whether more is lost than random loss of the given
// share explains.
func (u *unmoved) drops(random float64) bool {
	if random < minTolerance {
		return u.fates.lost > 0
	}
	return u.fates.above(random)
}

// A stay detects a longer path sooner than an unmoved does, and in any jitter, when we drain a
// large part of the path. It counts the rounds in a row whose queue was as long as in the round
// before, and as the longest one since the queue began to stand.
//
// It considers the way back, because most routes become longer in both directions, while a queue
// delays only the way there.
type stay struct {
	rounds int
	max    time.Duration // longest standing queue of a round
}

// roundOver adds a round. part is our part of the path's rate.
func (s *stay) roundOver(r *round, part float64, base time.Duration) {
	s.max = max(s.max, r.minQueue)
	moved := max((r.minQueue - r.prevMinQueue).Abs(), s.max-r.minQueue)
	limit := min(stirPart*part, maxStir)
	few := false
	if !r.backIsLonger() {
		// It may well be a queue, so be strict.
		limit = oneWayPart * limit
		few = r.fates.count() < trainPackets
	}
	s.rounds++
	if few || float64(moved) > limit*float64(base) {
		s.rounds = 0
	}
}

// A bothWays detects a longer path while we compete, in any jitter. It counts the rounds in a row
// in which both directions were longer than their minimum delays and neither moved. A queue delays
// only one direction, and two queues, one in each direction, would move.
type bothWays struct {
	rounds      int
	there, back span // excess of both directions over their minimum delays
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
