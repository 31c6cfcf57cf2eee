package pace

import "time"

// longerRounds: what looks like a queue, and stands unmoved for so many rounds in a row although the controller yields to it, is none. Beside BBR a
// queue stands unmoved for six rounds at most.
const longerRounds = 8

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
