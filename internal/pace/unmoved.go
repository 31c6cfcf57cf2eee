package pace

import "time"

// longerRounds is how many rounds in a row a queue must stand unmoved, though we yield to it, to be none. BBR leaves it unmoved for six at most.
const longerRounds = 8

// unmoved is a queue that stands in some rounds in a row, and hardly moves. One that others share with us moves: they take the place that we
// leave in it, or drain it to look, and when it is full it drops. The delay of a path that has become longer stays what it is.
type unmoved struct {
	rounds      int
	least, most time.Duration // in all of them
}

// roundOver adds a round. It begins anew unless the round counts, loses nothing, and meets the queue of those before.
func (u *unmoved) roundOver(r *round, grain time.Duration, counts bool) {
	if u.rounds == 0 {
		u.least, u.most = r.leastQueue, r.mostQueue
	}
	u.least, u.most = min(u.least, r.leastQueue), max(u.most, r.mostQueue)
	if !counts || r.fates.lost > 0 || u.most-u.least > max(u.least/32, 2*grain) {
		*u = unmoved{}
		return
	}
	u.rounds++
}
