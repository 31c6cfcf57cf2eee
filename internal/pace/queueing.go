package pace

import "time"

// A queueing counts the rounds in a row in which a queue stood on the path, and those with next to
// no queue.
type queueing struct {
	rounds       int           // rounds in a row with a standing queue of more than half the target
	rateBefore   float64       // the estimate when these rounds began
	randomBefore float64       // the usual share of random loss at that time
	quietRounds  int           // rounds in a row with next to no queue
	drained      time.Duration // deepest queue of the round in which the last drain began
	outdated     instant       // packets sent earlier met the queue of a path that has become faster since

	// Signs that the queue is really a longer path.
	unmoved unmoved  // in rounds of draining and competing
	stay    stay     // in the rounds with a standing queue
	both    bothWays // the same, with the way back
}

// roundOver is called at the end of each round. part is the estimate as a part of the highest
// rate seen on the path.
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
		// A queue begins to stand. Remember the state before that.
		q.rateBefore = estimate
		q.randomBefore = random
		q.stay = stay{}
		q.both = bothWays{}
	}
	q.rounds++
	q.stay.roundOver(r, part, d.base())
	q.both.roundOver(r, d.base())
}

// mayBeLonger reports whether a queue that we couldn't drain may actually be a longer path, which
// the next round will show. fastest is the highest rate seen on the path.
//
// Without this check, transfers over a path with jitter and 0.5 % loss would take its delay for a
// competitor's queue, and get a tenth of 50 Mbit/s for many seconds.
func (q *queueing) mayBeLonger(fastest float64) bool {
	return q.stay.rounds > 0 && q.rateBefore >= knownPart*fastest
}
