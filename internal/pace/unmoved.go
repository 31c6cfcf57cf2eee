package pace

import "time"

// longerRounds: what looks like a queue, and stands unmoved for so many rounds in a row although the controller yields to it, is none. Beside BBR a
// queue stands unmoved for six rounds at most.
const longerRounds = 8

const (
	// A drain takes half of what we have in flight out of the queue, whoever shares it, for others have as much in flight as before. stirPart is
	// the part of our share of a round trip by which a queue moves at least then, half of that, and mostStir that of a whole one: jitter moves it, too.
	stirPart, mostStir = 0.25, 0.125
	// oneWay is the part of that which shows a longer path though the way back is as long as before. Neighbours may by chance add what a drain takes
	// out: in every seventh run beside them their queue seemed to stay, and few packets in a round hide what moves.
	oneWay = 0.25
	// bothStir is the part of a round trip by which either way may move in longerRounds rounds if both are longer. Beside jitter of 4 ms the least
	// delays of rounds differ by a millisecond; a New Reno moves its queue on 20 Mbit/s by 5 ms meanwhile.
	bothStir = 1. / 16
	// stayRounds is how many rounds in a row must meet the queue of the one before to show a longer path.
	stayRounds = 2
	// knownPart is the least part of the most that the path ever gave at which that is believed: what we leave of less others may fill up.
	knownPart = 0.25
)

// unmoved tells a queue from a path that has become longer. It counts the rounds in a row in which the queue hardly moved. A queue that others
// share with us moves: they take the place that we leave in it, or drain it to look, and when it is full it drops. The delay of a longer path
// stays what it is.
type unmoved struct {
	rounds      int
	least, most time.Duration // of the queue in these rounds
	fates       tally         // of the packets that were decided in these rounds
}

// roundOver adds a round. It begins anew unless the round counts, meets the queue of those before, and no more is lost in all of them than
// the path loses at random.
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

// drops reports whether a queue drops: whether more is lost than random loss of that share explains.
func (u *unmoved) drops(random float64) bool {
	if random < leastTolerance {
		return u.fates.lost > 0
	}
	return u.fates.above(random)
}

// stay tells the same sooner, while we drain much of a path, and however packets jitter. It counts the rounds in a row in which the queue was as
// long as in the round before, and as ever since it stands. Most routes become longer both ways; a queue stands on the way there alone.
type stay struct {
	rounds int
	most   time.Duration // the greatest queue that has stood in a round
}

// roundOver adds a round, of which part is our part of the path.
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

// bothWays tells it while we compete, however packets jitter. It counts the rounds in a row in which both ways were longer than their least delays,
// and neither moved: a queue stands on one way alone, and two of them move.
type bothWays struct {
	rounds      int
	there, back span // how much longer they were
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

// span is what some times lie between.
type span struct{ least, most time.Duration }

func (s *span) add(d time.Duration) { s.least, s.most = min(s.least, d), max(s.most, d) }

func (s *span) width() time.Duration { return s.most - s.least }
