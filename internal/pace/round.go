package pace

import "time"

// A round is one round trip and what we observe during it. It ends when a packet arrives that was
// sent after it began.
type round struct {
	number int64
	began  instant
	end    int64 // delivery.total when it began; it ends with the first arrival sent after that

	// Fates.
	fates tally     // of the packets that were decided in this round
	sent  [4]tally  // by the round in which the packets were sent, modulo 4
	lost  [4]losses // by the round in which they were declared lost, modulo 4

	// Round trips of its batches.
	minTrip minDuration
	maxTrip time.Duration

	// Waits. On the way there, a wait is the excess of a one-way delay over the minimum, including
	// jitter. On the way back, it's the rest of the round trip's excess over the minimum.
	minBack minDuration
	minWait minDuration
	maxWait time.Duration
	closed  bool // the window was full

	// Queues that its batches met. The minimum is the standing queue.
	minQueue     time.Duration
	maxQueue     time.Duration
	prevMinQueue time.Duration // of the round before
	prevMaxQueue time.Duration
}

// noteTrip adds the round trip of a batch.
func (r *round) noteTrip(rtt time.Duration) {
	r.minTrip.note(rtt)
	r.maxTrip = max(r.maxTrip, rtt)
}

// noteWait adds the wait of a batch of packets, including jitter.
func (r *round) noteWait(wait time.Duration) {
	r.minWait.note(wait)
	r.maxWait = max(r.maxWait, wait)
}

// note adds the queue that a batch of packets met.
func (r *round) note(queue time.Duration) {
	r.minQueue = min(r.minQueue, queue)
	r.maxQueue = max(r.maxQueue, queue)
}

// next begins the next round. total is delivery.total.
func (r *round) next(t instant, total int64, queue time.Duration) {
	*r = round{
		number:       r.number + 1,
		began:        t,
		end:          total,
		minQueue:     queue,
		maxQueue:     queue,
		prevMinQueue: r.minQueue,
		prevMaxQueue: r.maxQueue,
		sent:         r.sent,
		lost:         r.lost,
	}
	r.sent[r.number%int64(len(r.sent))] = tally{}
	r.lost[r.number%int64(len(r.lost))] = losses{}
}

// sentIn returns the fates of the packets that were sent in a round, which must be one of the last
// four.
//
// The fates that became known in a round aren't enough, since those packets may have been sent in
// several rounds. When packets arrive late, it takes up to a round trip longer to detect a loss
// than to learn of an arrival.
func (r *round) sentIn(number uint8) *tally { return &r.sent[number%uint8(len(r.sent))] }

// losses returns what was lost in this round.
func (r *round) losses() *losses { return &r.lost[r.number%int64(len(r.lost))] }

// lostWithin returns how many packets were declared lost in the last rounds, without those that
// have arrived since, and the number of the first one.
func (r *round) lostWithin(rounds int64) (first uint16, count int) {
	for n := max(r.number-rounds+1, 0); n <= r.number; n++ {
		l := &r.lost[n%int64(len(r.lost))]
		if count == 0 {
			first = l.first
		}
		count += l.count
	}
	return first, count
}

// spurious takes back a loss in the last rounds, because the packet arrived.
func (r *round) spurious(s Sample) {
	for i := range r.lost {
		if l := &r.lost[i]; l.has(s.number) {
			l.count--
			if l == r.losses() {
				r.fates.takeBack()
			}
		}
	}
	if uint8(r.number)-s.round < uint8(len(r.sent)) {
		r.sentIn(s.round).takeBack()
	}
}

// arrived returns how many bytes were delivered since the round began. total is delivery.total.
func (r *round) arrived(total int64) int { return int(total - r.end) }

// shrinks reports whether the queue shrinks while we drain it, which means that it's ours.
func (r *round) shrinks() bool { return r.minQueue < r.prevMinQueue*3/4 }

// backIsLonger reports whether the way back became longer too, by at least half as much as the way
// there.
func (r *round) backIsLonger() bool { return r.minBack.value >= r.minQueue/2 }

// drainsOurs reports whether the queue that we are draining is our own, or that of many controllers
// that drain it along with us but use less than half of the path's rate.
//
// Our own queue shrinks, or else it drops more packets than usual. In the first rounds of a drain,
// it is enough if it shrinks by an eighth, but then its maximum must shrink as well: in mere
// jitter, one minimum in three is an eighth below the one before.
func (r *round) drainsOurs(first bool, usual float64) bool {
	shrinksSlowly := r.minQueue < r.prevMinQueue*7/8 && r.maxQueue < r.prevMaxQueue*7/8
	return r.shrinks() || first && shrinksSlowly || r.fates.above(usual)
}

// scatters reports whether the queues that the packets of this round and the last met differ so
// much that jitter may be the cause, in which case they show nothing about the rate. The queues
// don't scatter if the queue just keeps growing, because its minimum is then about the maximum of
// the round before.
func (r *round) scatters() bool { return r.minQueue < min(r.maxQueue, r.prevMaxQueue)*2/3 }

// ranEmpty reports whether some packet waited no longer, jitter included, than in the queue that we
// keep while cruising.
func (r *round) ranEmpty(d *delay) bool { return r.minWait.known && r.minWait.value <= d.aim() }

// swings reports whether the queue ran empty although some packet waited longer than in any queue
// of ours.
func (r *round) swings(d *delay) bool { return r.ranEmpty(d) && r.maxWait > d.target() }

// showsPath reports whether the round's rates may lower our estimate. They may not if the window
// was full although the queue ran empty, because the window then limited the rate, not the path.
func (r *round) showsPath(d *delay) bool { return !r.closed || !r.swings(d) }
