package pace

import "time"

// round is a round trip: it ends when a packet that left after its beginning arrives.
type round struct {
	number      int64
	end         int64         // of delivery.total: packets that left when less was delivered belong to it
	fates       tally         // of the packets of which it was heard in it
	sent        [4]tally      // fates by the low bits of the number of the round in which packets left
	leastQueue  time.Duration // what stands
	mostQueue   time.Duration
	leastBefore time.Duration // leastQueue of the round before
}

// note takes the queue that a batch of packets met.
func (r *round) note(queue time.Duration) {
	r.leastQueue = min(r.leastQueue, queue)
	r.mostQueue = max(r.mostQueue, queue)
}

// next begins the next round when total bytes are delivered.
func (r *round) next(total int64, queue time.Duration) {
	*r = round{number: r.number + 1, end: total, leastQueue: queue, mostQueue: queue, leastBefore: r.leastQueue, sent: r.sent}
	*r.sentIn(uint8(r.number)) = tally{}
}

// sentIn returns the fates of the packets that left in a round, one of the last four. A loss is told of later than the arrival of what left
// beside it, by up to a round trip where packets come late: what a round hears of did not leave together.
func (r *round) sentIn(number uint8) *tally { return &r.sent[number%uint8(len(r.sent))] }

// arrived returns how many bytes were delivered since the round's beginning, of total.
func (r *round) arrived(total int64) int { return int(total - r.end) }

// shrinks reports whether the queue shrinks as we drain: then it is our own, and the path has become slower.
func (r *round) shrinks() bool { return r.leastQueue < r.leastBefore*3/4 }
