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
}

// roundOver adds a round. It keeps what was known before a queue stood.
func (q *queueing) roundOver(r *round, d *delay, estimate, random float64) {
	if q.quietRounds++; r.mostQueue > max(d.aim()/2, d.jitter()/4) {
		q.quietRounds = 0
	}
	switch {
	case r.leastQueue <= d.target()/2:
		q.rounds = 0
		return
	case q.rounds == 0:
		q.rateBefore, q.randomBefore = estimate, random
	}
	q.rounds++
}
