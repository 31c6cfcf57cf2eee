package pace

import "time"

// longerRounds is how many rounds in a row what looks like a queue must stand unmoved, although the
// controller yields to it, to be none. Beside BBR a queue stands unmoved for six rounds at most.
const longerRounds = 8

const (
	// A drain takes half of what we have in flight out of the queue, whoever shares it,
	// because others have as much in flight as before. stirPart is the part of our share
	// of a round trip by which a queue moves at least then, half of that. mostStir
	// limits it, as a part of a whole round trip, because jitter moves the queue too.
	stirPart, mostStir = 0.25, 0.125
	// oneWay is the part of that which shows a longer path although the way back is as long
	// as before. Neighbours may by chance add what a drain takes out: in every seventh run
	// beside them their queue seemed to stay, and few packets in a round hide what moves.
	oneWay = 0.25
	// bothStir is the part of a round trip by which either way may move in longerRounds
	// rounds if both are longer. Beside jitter of 4 ms the least delays of rounds differ
	// by a millisecond; a New Reno moves its queue on 20 Mbit/s by 5 ms in that time.
	bothStir = 1. / 16
	// stayRounds is how many rounds in a row must meet the queue of the one
	// before to show a longer path.
	stayRounds = 2
	// knownPart is the part of the path's highest rate that ours must be at least to
	// believe that the path is longer: what we leave of a smaller part others may fill up.
	knownPart = 0.25
)

// An unmoved tells a queue from a path that has become longer. It counts the
// rounds in a row in which the queue hardly moved. A queue that others share with
// us moves: they take the place that we leave in it, or drain it to look, and
// when it is full it drops packets. The delay of a longer path does not change.
type unmoved struct {
	rounds      int
	least, most time.Duration // the least and the greatest queue in these rounds
	fates       tally         // fates of the packets that were decided in these rounds
}

// roundOver adds a round. The count begins again unless counts is true, the round meets the
// queue of those before, and no more is lost in all of them than the path loses at random.
func (u *unmoved) roundOver(r *round, grain time.Duration, random float64, counts bool) {
	if u.rounds == 0 {
		u.least, u.most = r.leastQueue, r.mostQueue
	}
	u.least, u.most = min(u.least, r.leastQueue), max(u.most, r.mostQueue)
	u.fates.add(r.fates)
	if !counts || u.drops(random) || u.most-u.least > max(u.least/32, 2*grain) {
		*u = unmoved{}
		return
	}
	u.rounds++
}

// drops reports whether a queue drops packets: whether more is lost than random
// loss of that share explains.
func (u *unmoved) drops(random float64) bool {
	if random < leastTolerance {
		return u.fates.lost > 0
	}
	return u.fates.above(random)
}

// A stay tells the same sooner, while we drain much of a path, and whatever the
// jitter. It counts the rounds in a row in which the queue was as long as in
// the round before, and as its greatest since it began to stand. Most routes
// become longer both ways, while a queue stands on the way there alone.
type stay struct {
	rounds int
	most   time.Duration // the greatest queue that has stood in a round
}

// roundOver adds a round; part is our part of the path.
func (s *stay) roundOver(r *round, part float64, base time.Duration) {
	s.most = max(s.most, r.leastQueue)
	moved := max((r.leastQueue - r.leastBefore).Abs(), s.most-r.leastQueue)
	most, few := min(stirPart*part, mostStir), false
	if !r.backIsLonger() {
		most, few = oneWay*most, r.fates.count() < trainPackets
	}
	if s.rounds++; few || float64(moved) > most*float64(base) {
		s.rounds = 0
	}
}

// A bothWays tells the same while we compete, whatever the jitter. It counts
// the rounds in a row in which both ways were longer than their least delays,
// and neither moved: a queue stands on one way alone, and two queues move.
type bothWays struct {
	rounds      int
	there, back span // how much longer both ways were
}

// roundOver adds a round.
func (b *bothWays) roundOver(r *round, base time.Duration) {
	if b.rounds == 0 {
		b.there, b.back = span{r.leastQueue, r.leastQueue}, span{r.leastBack.value, r.leastBack.value}
	}
	b.there.add(r.leastQueue)
	b.back.add(r.leastBack.value)
	if b.rounds++; !r.backIsLonger() || max(b.there.width(), b.back.width()).Seconds() > bothStir*base.Seconds() {
		b.rounds = 0
	}
}

// A span is the least and the greatest of some times.
type span struct{ least, most time.Duration }

func (s *span) add(d time.Duration) { s.least, s.most = min(s.least, d), max(s.most, d) }

func (s *span) width() time.Duration { return s.most - s.least }
