package pace

import "time"

// A queueing counts the consecutive rounds in which a queue stood on the path, or in
// which the path had next to no queue.
type queueing struct {
	rounds       int           // consecutive rounds with a standing queue of more than half the target
	rateBefore   float64       // estimate when these rounds began
	randomBefore float64       // usual share of random loss at that time
	quietRounds  int           // consecutive rounds with next to no queue
	drained      time.Duration // maximum queue of the round in which the last drain began
	unmoved      unmoved       // the queue, while draining and competing
	stay         stay          // the queue of these rounds
	both         bothWays      // the queue of these rounds, and the way back
}

// roundOver is called at the end of each round. When a queue begins to stand, it saves
// the estimate and the random loss from before. part is the estimate as a part of the
// highest rate seen on the path.
func (q *queueing) roundOver(r *round, d *delay, estimate, random, part float64) {
	q.quietRounds++
	if r.maxQueue > max(d.aim()/2, d.jitter()/4) {
		q.quietRounds = 0
	}
	switch {
	case r.minQueue <= d.target()/2:
		q.rounds = 0
		q.stay = stay{}
		q.both = bothWays{}
		return
	case q.rounds == 0:
		q.rateBefore = estimate
		q.randomBefore = random
		q.stay = stay{}
		q.both = bothWays{}
	}
	q.rounds++
	q.stay.roundOver(r, part, d.base())
	q.both.roundOver(r, d.base())
}

// mayBeLonger reports whether a queue that a drain did not remove may be the delay of a
// path that has become longer. The next round will show. fastest is the highest rate seen
// on the path.
//
// Without this check, transfers over a path with jitter and 0.5 % loss took that delay
// for the queue of a competitor, and got a tenth of 50 Mbit/s for many seconds.
func (q *queueing) mayBeLonger(fastest float64) bool {
	return q.stay.rounds > 0 && q.rateBefore >= knownPart*fastest
}
