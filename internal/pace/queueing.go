package pace

import "time"

// queueing counts the rounds in a row in which a queue stood, and those in which there was next to none.
type queueing struct {
	rounds       int           // with a queue above half of the target
	rateBefore   float64       // the estimate when these rounds began
	randomBefore float64       // the usual share of random loss, then
	quietRounds  int           // with next to no queue
	drained      time.Duration // the greatest queue of the round in which the last drain began
	unmoved      unmoved       // the queue, while draining and competing
	stay         stay          // the queue of these rounds
	both         bothWays      // the same, and the way back
}

// roundOver adds a round. It keeps what was known before a queue stood. part is our part of the path.
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

// mayBeLonger reports whether the queue of a drain may be the delay of a longer path, which the next round will show. fastest is the most that the
// path gave. Where packets jittered and 0.5 % were lost, transfers competed with that delay for many seconds, and had a tenth of 50 Mbit/s.
func (q *queueing) mayBeLonger(fastest float64) bool {
	return q.stay.rounds > 0 && q.rateBefore >= knownPart*fastest
}
