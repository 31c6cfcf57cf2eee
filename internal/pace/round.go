package pace

import "time"

// A round is a round trip: it ends when a packet that was sent after its beginning arrives.
type round struct {
	number int64
	began  instant
	// delivery.total when the round began; the round ends when a packet arrives
	// that was sent later.
	end       int64
	fates     tally         // fates of the packets that were decided in this round
	sent      [4]tally      // fates by the round in which the packets were sent, at its number modulo 4
	lost      [4]losses     // losses by the round in which the packets counted as lost, at its number modulo 4
	leastTrip least         // the least round trip of its batches
	mostTrip  time.Duration // the greatest round trip of its batches
	// The least wait on the way back: by how much its round trips exceed the
	// least one, less the wait on the way there.
	leastBack   least
	leastWait   least         // the least wait: by how much one-way delays exceed the least one, jitter included
	mostWait    time.Duration // the greatest such wait
	closed      bool          // the window has held packets back
	leastQueue  time.Duration // the least queue of its batches: the queue that stands
	mostQueue   time.Duration // the greatest queue of its batches
	leastBefore time.Duration // leastQueue of the round before
	mostBefore  time.Duration // mostQueue of the round before
}

// noteTrip adds the round trip of a batch.
func (r *round) noteTrip(rtt time.Duration) {
	r.leastTrip.note(rtt)
	r.mostTrip = max(r.mostTrip, rtt)
}

// noteWait adds the time that a batch of packets waited, jitter included.
func (r *round) noteWait(wait time.Duration) {
	r.leastWait.note(wait)
	r.mostWait = max(r.mostWait, wait)
}

// note adds the queue that a batch of packets met.
func (r *round) note(queue time.Duration) {
	r.leastQueue = min(r.leastQueue, queue)
	r.mostQueue = max(r.mostQueue, queue)
}

// next begins the next round; total is delivery.total.
func (r *round) next(t instant, total int64, queue time.Duration) {
	*r = round{number: r.number + 1, began: t, end: total, leastQueue: queue, mostQueue: queue, leastBefore: r.leastQueue, mostBefore: r.mostQueue, sent: r.sent, lost: r.lost}
	*r.sentIn(uint8(r.number)) = tally{}
	*r.losses() = losses{}
}

// sentIn returns the fates of the packets that were sent in a round, one of the last four. The
// packets that are decided in one round were not all sent in one: if packets arrive late, a loss
// is found up to a round trip after the arrival of a packet that was sent at the same time.
func (r *round) sentIn(number uint8) *tally { return &r.sent[number%uint8(len(r.sent))] }

// losses returns the losses of this round.
func (r *round) losses() *losses { return &r.lost[r.number%int64(len(r.lost))] }

// lostWithin returns how many packets counted as lost in the last rounds and
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

// spurious removes a loss of the last rounds, because the packet has arrived.
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

// arrived returns how many bytes were delivered since the round's beginning, if
// total were until now.
func (r *round) arrived(total int64) int { return int(total - r.end) }

// shrinks reports whether the queue shrinks while the controller drains: then it is our own.
func (r *round) shrinks() bool { return r.leastQueue < r.leastBefore*3/4 }

// backIsLonger reports whether the way back has become longer as well, by half
// of what the way there has.
func (r *round) backIsLonger() bool { return r.leastBack.value >= r.leastQueue/2 }

// drainsOurs reports whether the queue that a drain meets is our own, or that of
// many controllers that drain it with us at less than half of the path's rate: it
// shrinks, in the first rounds of the drain by at least an eighth, or more is lost
// than usual. In the first rounds its greatest must shrink like its least, because
// where packets only jitter, one least of three is an eighth below the one before.
func (r *round) drainsOurs(first bool, usual float64) bool {
	shrinksSlowly := r.leastQueue < r.leastBefore*7/8 && r.mostQueue < r.mostBefore*7/8
	return r.shrinks() || first && shrinksSlowly || r.fates.above(usual)
}

// scatters reports whether the packets of this round and the last one met queues so
// different that it may have been jitter, which says nothing about the rate. A queue that
// grows all the time does not scatter: its least is about the greatest of the round before.
func (r *round) scatters() bool { return r.leastQueue < min(r.mostQueue, r.mostBefore)*2/3 }

// ranEmpty reports whether some packet of the round met no longer queue than
// that for which cruising steers, jitter included.
func (r *round) ranEmpty(d *delay) bool { return r.leastWait.known && r.leastWait.value <= d.aim() }

// swings reports whether the queue ran empty in the round, and yet some packet
// waited longer than in any queue of ours.
func (r *round) swings(d *delay) bool { return r.ranEmpty(d) && r.mostWait > d.target() }

// showsPath reports whether the rates of the round may lower the estimate. If the
// window held packets back although the queue ran empty, they are rates of the window.
func (r *round) showsPath(d *delay) bool { return !r.closed || !r.swings(d) }
