package pace

import "time"

// round is a round trip: it ends when a packet that left after its beginning arrives.
type round struct {
	number      int64
	end         int64         // of delivery.total: packets that left when less was delivered belong to it
	fates       tally         // of the packets of which it was heard in it
	left        [4]tally      // fates by the low bits of the number of the round in which packets left
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
	*r = round{number: r.number + 1, end: total, leastQueue: queue, mostQueue: queue, leastBefore: r.leastQueue, left: r.left}
	*r.leftIn(uint8(r.number)) = tally{}
}

// leftIn returns the fates of the packets that left in a round, of the last four. A loss is told of later than what arrived beside it, by up
// to a round trip where packets come late, so that fates never mix alike in what a round hears.
func (r *round) leftIn(number uint8) *tally { return &r.left[number%uint8(len(r.left))] }

// arrived returns how many bytes were delivered since the round's beginning, of total.
func (r *round) arrived(total int64) int { return int(total - r.end) }

// shrinks reports whether the queue shrinks as we drain: then it is our own, and the path has become slower.
func (r *round) shrinks() bool { return r.leastQueue < r.leastBefore*3/4 }
