package pace

import "time"

// longerRounds is the number of consecutive rounds in which an apparent queue must stand
// unmoved, although the controller yields to it, to be none. Beside BBR a queue stands
// unmoved for at most six rounds.
const longerRounds = 8

const (
	// A drain takes half of our bytes in flight out of the queue, whoever shares the
	// queue, because others have as much in flight as before. stirPart is the part of our
	// share of a round trip by which a queue moves at least then, half of that.
	//
	// maxStir limits it, as a part of a whole round trip, because jitter moves the queue
	// too.
	stirPart, maxStir = 0.25, 0.125
	// oneWayPart is the part of that which shows a longer path although the way back is
	// as long as before. Neighbours may by chance add what a drain takes out. In every
	// seventh run beside them their queue seemed to stay, and few packets in a round hide
	// what moves.
	oneWayPart = 0.25
	// bothStir is the part of a round trip by which either direction may move in
	// longerRounds rounds if both are longer. Beside jitter of 4 ms the minimum delays of
	// rounds differ by a millisecond. A New Reno moves its queue on 20 Mbit/s by 5 ms in
	// that time.
	bothStir = 1. / 16
	// stayRounds is the number of consecutive rounds that must meet the queue of the
	// previous one to show a longer path.
	stayRounds = 2
	// knownPart is the minimum part of the path's highest rate that ours must be to
	// believe that the path is longer. What we leave of a smaller part, others may fill
	// up.
	knownPart = 0.25
)

// An unmoved tells a queue from a path that has become longer. It counts the consecutive
// rounds in which the queue hardly moved.
//
// A queue that others share with us moves. They take the place that we leave in it, or
// drain it to look, and when it is full it drops packets. The delay of a longer path does
// not change.
type unmoved struct {
	rounds   int
	min, max time.Duration // minimum and maximum queue in these rounds
	fates    tally         // fates of the packets that were decided in these rounds
}

// roundOver adds a round. The count begins again unless counts is true, the round meets
// the queue of the previous ones, and no more is lost in all of them than the path loses
// at random.
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

// drops reports whether a queue drops packets: whether more is lost than random loss of
// the given share explains.
func (u *unmoved) drops(random float64) bool {
	if random < minTolerance {
		return u.fates.lost > 0
	}
	return u.fates.above(random)
}

// A stay detects a longer path sooner than unmoved, while we drain much of a path, and
// whatever the jitter. It counts the consecutive rounds in which the queue was as long as
// in the previous round, and as its maximum since it began to stand.
//
// Most routes become longer in both directions, while a queue delays the way there alone.
type stay struct {
	rounds int
	max    time.Duration // maximum standing queue of a round
}

// roundOver adds a round; part is our part of the path.
func (s *stay) roundOver(r *round, part float64, base time.Duration) {
	s.max = max(s.max, r.minQueue)
	moved := max((r.minQueue - r.prevMinQueue).Abs(), s.max-r.minQueue)
	limit := min(stirPart*part, maxStir)
	few := false
	if !r.backIsLonger() {
		limit = oneWayPart * limit
		few = r.fates.count() < trainPackets
	}
	s.rounds++
	if few || float64(moved) > limit*float64(base) {
		s.rounds = 0
	}
}

// A bothWays detects a longer path while we compete, whatever the jitter. It counts the
// consecutive rounds in which both directions were longer than their minimum delays, and
// neither moved. A queue delays one direction only, and two queues move.
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

// A span is the minimum and the maximum of some times.
type span struct{ min, max time.Duration }

func (s *span) add(d time.Duration) { s.min, s.max = min(s.min, d), max(s.max, d) }

func (s *span) width() time.Duration { return s.max - s.min }
