package pace

import "time"

// A round is a round trip. It ends when a packet that was sent after its beginning
// arrives.
type round struct {
	number int64
	began  instant
	// Value of delivery.total when the round began. The round ends when a packet arrives
	// that was sent later.
	end   int64
	fates tally    // fates of the packets that were decided in this round
	sent  [4]tally // fates by the round in which the packets were sent, at its number modulo 4
	// Losses by the round in which the packets were declared lost, at its number modulo
	// 4.
	lost    [4]losses
	minTrip minDuration   // minimum round trip of its batches
	maxTrip time.Duration // maximum round trip of its batches
	// Minimum wait on the way back: the excess of a round trip over the minimum one, less
	// the wait on the way there.
	minBack minDuration
	// Minimum wait: the excess of a one-way delay over the minimum one, jitter included.
	minWait      minDuration
	maxWait      time.Duration // maximum wait
	closed       bool          // the window held packets back
	minQueue     time.Duration // minimum queue of its batches: the queue that stands
	maxQueue     time.Duration // maximum queue of its batches
	prevMinQueue time.Duration // minQueue of the previous round
	prevMaxQueue time.Duration // maxQueue of the previous round
}

// noteTrip adds the round trip of a batch.
func (r *round) noteTrip(rtt time.Duration) {
	r.minTrip.note(rtt)
	r.maxTrip = max(r.maxTrip, rtt)
}

// noteWait adds the wait of a batch of packets, jitter included.
func (r *round) noteWait(wait time.Duration) {
	r.minWait.note(wait)
	r.maxWait = max(r.maxWait, wait)
}

// note adds the queue that a batch of packets met.
func (r *round) note(queue time.Duration) {
	r.minQueue = min(r.minQueue, queue)
	r.maxQueue = max(r.maxQueue, queue)
}

// next begins the next round; total is delivery.total.
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

// sentIn returns the fates of the packets that were sent in a round, which is one of the
// last four.
//
// The packets decided in one round were not all sent in one. If packets arrive late, a
// loss is found up to a round trip after the arrival of a packet that was sent at the
// same time.
func (r *round) sentIn(number uint8) *tally { return &r.sent[number%uint8(len(r.sent))] }

// losses returns the losses of this round.
func (r *round) losses() *losses { return &r.lost[r.number%int64(len(r.lost))] }

// lostWithin returns the number of packets that were declared lost in the last rounds and
// have not arrived since, and the number of the first of them.
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

// spurious removes a loss of the last rounds, because the packet arrived.
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

// arrived returns the number of bytes delivered since the round began, given the total
// until now.
func (r *round) arrived(total int64) int { return int(total - r.end) }

// shrinks reports whether the queue shrinks while the controller drains. Then the queue
// is our own.
func (r *round) shrinks() bool { return r.minQueue < r.prevMinQueue*3/4 }

// backIsLonger reports whether the way back has become longer as well, by half of the
// increase on the way there.
func (r *round) backIsLonger() bool { return r.minBack.value >= r.minQueue/2 }

// drainsOurs reports whether the queue that a drain meets is our own, or that of many
// controllers that drain it with us at less than half of the path's rate. Such a queue
// shrinks, in the first rounds of the drain by at least an eighth, or drops more packets
// than usual.
//
// In the first rounds its maximum must shrink like its minimum. Where packets only
// jitter, one minimum of three is an eighth below the previous one.
func (r *round) drainsOurs(first bool, usual float64) bool {
	shrinksSlowly := r.minQueue < r.prevMinQueue*7/8 && r.maxQueue < r.prevMaxQueue*7/8
	return r.shrinks() || first && shrinksSlowly || r.fates.above(usual)
}

// scatters reports whether the packets of this round and the last one met queues so
// different that the cause may be jitter, which says nothing about the rate. A queue that
// grows all the time does not scatter: its minimum is about the maximum of the previous
// round.
func (r *round) scatters() bool { return r.minQueue < min(r.maxQueue, r.prevMaxQueue)*2/3 }

// ranEmpty reports whether some packet of the round met no longer queue than the one that
// cruising steers for, jitter included.
func (r *round) ranEmpty(d *delay) bool { return r.minWait.known && r.minWait.value <= d.aim() }

// swings reports whether the queue ran empty in the round although some packet waited
// longer than in any queue of ours.
func (r *round) swings(d *delay) bool { return r.ranEmpty(d) && r.maxWait > d.target() }

// showsPath reports whether the rates of the round may lower the estimate. If the window
// held packets back although the queue ran empty, they are rates of the window.
func (r *round) showsPath(d *delay) bool { return !r.closed || !r.swings(d) }
