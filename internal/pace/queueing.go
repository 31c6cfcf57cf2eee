package pace

import "time"

// A queueing counts how many rounds in a row a queue has stood on the path, or
// has been nearly empty.
type queueing struct {
	rounds       int           // rounds with a standing queue of more than half the target
	rateBefore   float64       // the estimate when these rounds began
	randomBefore float64       // the usual share of random loss at that time
	quietRounds  int           // rounds with next to no queue
	drained      time.Duration // the largest queue of the round in which the last drain began
	unmoved      unmoved       // the queue, while draining and competing
	stay         stay          // the queue of these rounds
	both         bothWays      // the same, and the way back
}

// roundOver is called at the end of each round. When a queue begins to stand,
// it saves the estimate and the random loss from before. part is the estimate
// as a part of the highest rate seen on the path.
func (q *queueing) roundOver(r *round, d *delay, estimate, random, part float64) {
	if q.quietRounds++; r.mostQueue > max(d.aim()/2, d.jitter()/4) {
		q.quietRounds = 0
	}
	switch {
	case r.leastQueue <= d.target()/2:
		q.rounds, q.stay, q.both = 0, stay{}, bothWays{}
		return
	case q.rounds == 0:
		q.rateBefore, q.randomBefore, q.stay, q.both = estimate, random, stay{}, bothWays{}
	}
	q.rounds++
	q.stay.roundOver(r, part, d.base())
	q.both.roundOver(r, d.base())
}

// mayBeLonger reports whether the queue that a drain has not removed may be the delay of a
// path that has become longer, as the next round will show. fastest is the highest rate
// seen on the path. Without this, transfers over a path with jitter and 0.5 % loss took
// that delay for the queue of a competitor, and got a tenth of 50 Mbit/s for many seconds.
func (q *queueing) mayBeLonger(fastest float64) bool {
	return q.stay.rounds > 0 && q.rateBefore >= knownPart*fastest
}
