package pace

import "time"

const (
	// aimPackets is how many packets the queue should hold, TCP Vegas' alpha:
	// enough that the bottleneck does not run dry.
	aimPackets = 3
	// The least jitter is leastJitter, jitterGrains packet times at the path's rate, or
	// 1/jitterPart of the round trip, which is a third of the target. Smaller spreads
	// of the delay may be due to how packets are sent, and are no queue that matters.
	leastJitter, jitterGrains, jitterPart = 2 * time.Millisecond, 2, 12
	// stallPackets is the length of the least stand, in packet times: a path
	// that becomes slower makes shorter gaps.
	stallPackets = 4
	// leastStartFull is the least queue that a start takes for a full one: a
	// smaller one may be jitter.
	leastStartFull = 4 * time.Millisecond
	// A round trip of a narrow path holds fewer than narrowPackets packets.
	// There a look adds a packet or two, and a payback for a fixed time removes
	// fewer, so the drain lasts until the queue is gone. When it did not, a
	// queue of 100 to 170 ms stood beside two transfers of others over 2 Mbit/s.
	narrowPackets = 16
)

// A delay measures round trips, and the one-way delays of arrivals, of which
// only differences mean anything.
type delay struct {
	rtt              minimum
	latest           time.Duration
	smoothed, varied time.Duration // as in RFC 6298; 0 = unknown
	guess            time.Duration // round trip of other packets, before acks have shown one; 0 = unknown
	since            instant       // when acks first showed one; 0 = never. The guess is forgotten minimumLife later
	way              minimum       // the least one-way delay
	grain            time.Duration // time that a packet takes at our share of the bottleneck; 0 = unknown
	finest           time.Duration // the least grain of this path so far; 0 = unknown
	// Least one-way delay since the last Dip; unlike way it does not rise while
	// nobody looks for less.
	floor     least
	nearLeast instant // when the one-way delay was last near floor
	// Floor is from before the peer's clock was corrected, and may have a queue in it; until a Dip.
	doubtful   bool
	back       time.Duration // least wait on the way back in the last round: see round.leastBack
	calmTrip   calm          // how high round trips rise without a queue
	calmWay    calm          // how high one-way delays rise without a queue
	swings     swings        // the same in the last rounds, for jitter that has just begun
	longRounds int           // rounds in a row of which every round trip was long
	depth      time.Duration // depth of the bottleneck's queue, by losses; 0 = unknown
	depthAt    instant       // when these losses were
}

// trip adds the round trip of a batch (RFC 6298, section 2).
func (d *delay) trip(t instant, rtt time.Duration) {
	d.rtt.add(t, rtt)
	d.latest = rtt
	if d.since == 0 {
		d.since = t
	}
	if t-d.since > minimumLife {
		d.guess = 0
	}
	if d.smoothed == 0 {
		d.smoothed, d.varied = rtt, rtt/2
		return
	}
	d.varied += ((d.smoothed - rtt).Abs() - d.varied) / 4
	d.smoothed += (rtt - d.smoothed) / 8
}

// arrive adds a one-way delay.
func (d *delay) arrive(t instant, way time.Duration) {
	d.way.add(t, way)
	d.floor.note(way)
	if way <= d.floor.value+d.near() {
		d.nearLeast = t
	}
}

// noteGrain records the time that a packet takes at our share of the bottleneck.
func (d *delay) noteGrain(grain time.Duration) {
	if d.grain = grain; d.finest == 0 || grain < d.finest {
		d.finest = grain
	}
}

// still returns the shortest gap between arrivals that shows a stand.
func (d *delay) still() time.Duration { return max(d.base()/4, stallPackets*d.grain) }

// forgetLeast forgets the least delays, because the path has become longer by
// what seemed to be a queue.
func (d *delay) forgetLeast(t instant, queue time.Duration) {
	way := d.way.least + queue
	d.rtt, d.way, d.guess = minimum{}, minimum{}, 0
	d.rtt.add(t, d.latest)
	d.way.add(t, way)
	d.calmTrip, d.calmWay, d.swings, d.nearLeast, d.floor, d.doubtful = calm{}, calm{}, swings{}, t, least{}, false
}

// measureAnew measures one-way delays again, with floor as the least, because
// the peer's clock has been corrected.
func (d *delay) measureAnew(t instant, floor least) {
	d.way, d.calmWay, d.swings, d.nearLeast, d.floor, d.doubtful = minimum{}, calm{}, swings{}, t, floor, true
	d.way.add(t, floor.value)
}

// dipped records that the path was left half empty, so the least delay now is the path's.
func (d *delay) dipped(t instant) {
	d.nearLeast, d.floor, d.doubtful = t, least{d.way.least, true}, false
}

// risen returns by how much the least one-way delay has risen since the last Dip.
func (d *delay) risen() time.Duration {
	if !d.floor.known {
		return 0
	}
	return max(d.way.least-d.floor.value, 0)
}

// near returns the greatest distance from the least delay that counts as no queue. It is well
// below the target, and below the queue at which a sender cruises. Otherwise at 1 Mbit/s,
// where that is one packet, a least delay with a queue in it was near itself forever.
func (d *delay) near() time.Duration { return d.target() / 16 }

// base returns the path's round trip without a queue, or the best guess of it.
func (d *delay) base() time.Duration {
	if d.rtt.known {
		return max(d.rtt.least, time.Microsecond)
	}
	if d.smoothed > 0 {
		return d.smoothed
	}
	return defaultRTT
}

// target returns the least standing queue that is too much. Two packets, of which one is being
// sent, are no queue (compare RFC 8289, section 4.2, where CoDel lets a full packet wait).
func (d *delay) target() time.Duration { return max(minStanding, d.base()/4, 2*d.grain) }

// aim returns the queue for which cruising steers: aimPackets of our own, as in TCP Vegas.
// So of two controllers that share a bottleneck the faster one wants the shorter queue, and
// yields. The aims of many slow controllers together must not exceed half of the target. Nor
// may they all be equal to that half, because then nobody would yield: so the aim approaches
// it smoothly. The aim is at least a packet, and at most a third of a short queue's depth.
func (d *delay) aim() time.Duration {
	own, most := float64(aimPackets*d.grain), float64(d.target()/2)
	aim := max(time.Duration(own*most/(own+most)), min(d.grain, time.Duration(most)))
	if d.depth > 0 {
		aim = min(aim, d.depth/3)
	}
	return aim
}

// noteDepth records that the queue has dropped packets at this depth, not counting jitter.
func (d *delay) noteDepth(t instant, deep time.Duration) {
	d.depth, d.depthAt = max(deep, shallow), t
}

// forget forgets the queue's depth once it is older than minimumLife.
func (d *delay) forget(t instant) {
	if t-d.depthAt > minimumLife {
		d.depth = 0
	}
}

// short reports whether the queue is known to drop packets before it is deep enough to be seen.
func (d *delay) short() bool { return d.depth > 0 && d.depth < 2*d.target() }

// narrow reports whether a round trip of the path holds few packets, and its queue more.
func (d *delay) narrow() bool { return d.base() < narrowPackets*d.finest && !d.short() }

// startFull returns the queue at which a start has filled the path: the target, or
// less if the queue is known to be shorter. Otherwise a start that begins in a
// short gap between many flows would continue until a tenth of all packets is lost.
func (d *delay) startFull() time.Duration {
	if d.depth == 0 {
		return d.target()
	}
	return min(d.target(), max(d.depth/2, leastStartFull))
}

// jitter returns how far the one-way delay rises above its least without a queue; 0 if that is
// too little to tell. What is too little depends on the path alone. When it grew with the time
// of a packet at our own rate, the fast ones of eight controllers in jitter of 10 ms saw less of
// their common queue than the slow ones, and took the path from them; and a rate that had
// collapsed took jitter for a queue, and random losses kept it low. If a queue is short, and
// many fill and empty it again, a rise of up to one and a half times its depth may be the queue.
func (d *delay) jitter() time.Duration {
	least := max(jitterGrains*d.finest, d.base()/jitterPart, leastJitter)
	if d.short() {
		least = max(least, min(d.depth*3/2, d.target()))
	}
	if j := d.spread(); j > least {
		return j
	}
	return 0
}

// spread returns how far the one-way delay of every round rises above its least, but not much more
// than above what all its packets wait: a queue that stands in all rounds is no jitter. A stretch
// of few packets shows about three fifths of the jitter, between its lowest and its greatest delay.
func (d *delay) spread() time.Duration {
	calm := &d.calmWay
	return max(min(calm.above(calm.bottom)*5/3, calm.above(d.way.least)), d.swings.wait())
}

// reach returns the round trip that a full window must span, including the
// jitter and the clumps of both ways.
func (d *delay) reach() time.Duration {
	return max(d.base()+d.calmTrip.above(d.rtt.least), d.swings.trip())
}

// behind returns by how much a queue on the way back, such as that of somebody's upload before
// our acks, makes a round trip longer than reach. A queue below the target does not count: acks
// always wait a little, and of eight flows over a short queue those that had most got more.
func (d *delay) behind() time.Duration {
	if d.back <= d.target() {
		return 0
	}
	return max(d.base()+d.back-d.reach(), 0)
}

// long reports whether a round trip shows a queue. A peer that lies about times
// of arrival cannot hide such a queue. If the guess is from before, many
// controllers that begin together cannot overlook theirs either, although the
// only delay of the path that they have met is that over their common queue.
func (d *delay) long(trip time.Duration) bool {
	least := d.base()
	if d.guess > 0 {
		least = min(least, d.guess)
	}
	return trip > least+d.calmTrip.above(d.rtt.least)+d.target()
}

// roundOver adds a round, by its least round trip.
func (d *delay) roundOver(trip time.Duration) {
	if d.longRounds++; !d.long(trip) {
		d.longRounds = 0
	}
}

// stands reports whether round trips show a queue that has outlasted our
// draining, and so is somebody else's.
func (d *delay) stands() bool { return d.longRounds >= drainRounds }

// firstReach returns the reach for a first flight. Our own first round trip may
// include the queue of all controllers that began at the same time, and a
// flight for that would be too long. The guess is from before.
func (d *delay) firstReach() time.Duration {
	if d.guess > 0 {
		return min(d.guess, d.reach())
	}
	return d.reach()
}

// pto returns the probe timeout (RFC 9002, section 6.2.1). It is not less than the
// round trips to which every round rises, because jitter and clumps are no silence.
func (d *delay) pto(ackDelay time.Duration) time.Duration {
	if d.smoothed == 0 {
		return 2*defaultRTT + ackDelay
	}
	return max(d.smoothed+max(4*d.varied, 2*time.Millisecond), d.reach()) + ackDelay
}
