package pace

import "time"

// round is a round trip: it ends when a packet that left after its beginning arrives.
type round struct {
	number      int64
	end         int64         // delivery.total when it began: it ends when a packet arrives that left after that
	fates       tally         // of packets that were decided in it
	sent        [4]tally      // of packets by the round in which they left, its number modulo 4
	leastQueue  time.Duration // the queue that stands
	mostQueue   time.Duration
	leastBefore time.Duration // leastQueue of the last round
}

// note takes the queue that a batch of packets met.
func (r *round) note(queue time.Duration) {
	r.leastQueue = min(r.leastQueue, queue)
	r.mostQueue = max(r.mostQueue, queue)
}

// next begins the next round; total is delivery.total.
func (r *round) next(total int64, queue time.Duration) {
	*r = round{number: r.number + 1, end: total, leastQueue: queue, mostQueue: queue, leastBefore: r.leastQueue, sent: r.sent}
	*r.sentIn(uint8(r.number)) = tally{}
}

// sentIn returns the fates of packets that left in a round, one of the last four. A loss is found later than the arrival of a packet that
// left beside it, by up to a round trip when packets come late: packets that are decided in one round did not leave in one.
func (r *round) sentIn(number uint8) *tally { return &r.sent[number%uint8(len(r.sent))] }

// arrived returns how many bytes were delivered since the round's beginning, of total.
func (r *round) arrived(total int64) int { return int(total - r.end) }

// shrinks reports whether the queue shrinks while the controller drains: then it is our own.
func (r *round) shrinks() bool { return r.leastQueue < r.leastBefore*3/4 }
