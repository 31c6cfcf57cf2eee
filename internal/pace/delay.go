package pace

import "time"

const (
	// aimPackets is how many packets the queue should hold, TCP Vegas' alpha: enough that the bottleneck does not run dry.
	aimPackets = 3
	// leastJitter, jitterGrains packet times at the path's rate, and a jitterPart of the round trip, a third of the target, are the least jitter:
	// smaller spreads of the delay may come from how packets are sent, and are no queue that matters.
	leastJitter, jitterGrains, jitterPart = 2 * time.Millisecond, 2, 12
	// stallPackets is the least stand in packet times: a path that becomes slower makes shorter gaps.
	stallPackets = 4
	// leastStartFull is the least queue that a start takes for a full one: a smaller one may be jitter.
	leastStartFull = 4 * time.Millisecond
	// A round trip of a narrow path holds fewer than narrowPackets. There a look adds a packet or two, and to pay back for a fixed time takes away
	// less: so the drain lasts until the queue is gone. Before it did, a queue of 100 to 170 ms stood beside two transfers of others over 2 Mbit/s.
	narrowPackets = 16
)

// delay measures round trips, and the one-way delays of arrivals, of which only differences mean anything.
type delay struct {
	rtt              minimum
	latest           time.Duration
	smoothed, varied time.Duration // RFC 6298
	guess            time.Duration // round trip of other packets, before acks have shown one; 0 = unknown
	since            instant       // when acks first showed one; the guess is forgotten minimumLife later
	way              minimum       // of one-way delays
	grain            time.Duration // time of a packet at our share of the bottleneck
	finest           time.Duration // the least grain of this path so far; 0 = unknown
	floor            least         // of one-way delays since the last Dip; unlike way it does not rise while nobody looks for less
	nearLeast        instant       // when the one-way delay was last near floor
	doubtful         bool          // floor is from before the peer's clock was set right, and may have a queue in it: until a Dip
	back             time.Duration // the least wait on the way back in the last round: by how much its round trips exceed the least one, less the queue there
	calmTrip         calm          // how high round trips rise without a queue
	calmWay          calm          // how high one-way delays do
	swings           swings        // the same of the last rounds, when jitter has just begun
	longRounds       int           // rounds in a row of which every round trip was long
	depth            time.Duration // of the bottleneck's queue, by losses; 0 = unknown
	depthAt          instant       // when those were
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

// noteGrain notes the time that a packet takes at our share of the bottleneck.
func (d *delay) noteGrain(grain time.Duration) {
	if d.grain = grain; d.finest == 0 || grain < d.finest {
		d.finest = grain
	}
}

// still returns the shortest gap between arrivals that shows a stand.
func (d *delay) still() time.Duration { return max(d.base()/4, stallPackets*d.grain) }

// forgetLeast forgets the least delays: the path has become longer by what seemed to be a queue.
func (d *delay) forgetLeast(t instant, queue time.Duration) {
	way := d.way.least + queue
	d.rtt, d.way, d.guess = minimum{}, minimum{}, 0
	d.rtt.add(t, d.latest)
	d.way.add(t, way)
	d.calmTrip, d.calmWay, d.swings, d.nearLeast, d.floor, d.doubtful = calm{}, calm{}, swings{}, t, least{}, false
}

// measureAnew begins to measure one-way delays anew, with floor as the least: the peer's clock has been set right.
func (d *delay) measureAnew(t instant, floor least) {
	d.way, d.calmWay, d.swings, d.nearLeast, d.floor, d.doubtful = minimum{}, calm{}, swings{}, t, floor, true
	d.way.add(t, floor.value)
}

// dipped notes that the path was left half empty: the least delay now is the path's.
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

// near returns the most that counts as no queue. It is well below the target, and below the queue at which a sender cruises: else at 1 Mbit/s, where
// that is one packet, a least delay with a queue in it was near itself for ever.
func (d *delay) near() time.Duration { return d.target() / 16 }

// base returns the path's round trip without a queue.
func (d *delay) base() time.Duration {
	if d.rtt.known {
		return max(d.rtt.least, time.Microsecond)
	}
	if d.smoothed > 0 {
		return d.smoothed
	}
	return defaultRTT
}

// target returns the least standing queue that is too much. Two packets, of which one is being sent, are no queue (compare RFC
// 8289, section 4.2, where CoDel lets a full packet wait).
func (d *delay) target() time.Duration { return max(minStanding, d.base()/4, 2*d.grain) }

// aim returns the queue for which cruising steers: aimPackets of our own, as in TCP Vegas. So of two controllers that share a bottleneck the
// faster one wants the shorter queue, and yields. The aims of many slow ones together must not exceed half of the target, nor be equal, for
// then nobody would yield: so the aim approaches that half smoothly. It is at least a packet, and at most a third of a short queue's depth.
func (d *delay) aim() time.Duration {
	own, most := float64(aimPackets*d.grain), float64(d.target()/2)
	aim := max(time.Duration(own*most/(own+most)), min(d.grain, time.Duration(most)))
	if d.depth > 0 {
		aim = min(aim, d.depth/3)
	}
	return aim
}

// noteDepth notes that the queue has dropped packets when it was so deep, not counting jitter.
func (d *delay) noteDepth(t instant, deep time.Duration) {
	d.depth, d.depthAt = max(deep, shallow), t
}

// forget forgets the queue's depth once it is older than minimumLife.
func (d *delay) forget(t instant) {
	if t-d.depthAt > minimumLife {
		d.depth = 0
	}
}

// short reports whether the queue is known to drop before it is deep enough to be seen.
func (d *delay) short() bool { return d.depth > 0 && d.depth < 2*d.target() }

// narrow reports whether a round trip of the path holds few packets, and its queue more.
func (d *delay) narrow() bool { return d.base() < narrowPackets*d.finest && !d.short() }

// startFull returns the queue at which a start has filled the path: the target, or less when the queue is known to be shorter. Otherwise a start
// that begins in a crowd's short gap would go on until a tenth of all packets are lost.
func (d *delay) startFull() time.Duration {
	if d.depth == 0 {
		return d.target()
	}
	return min(d.target(), max(d.depth/2, leastStartFull))
}

// jitter returns how far the one-way delay rises above its least without a queue; 0 when that is too little to tell. What is too little depends on
// the path alone. While it grew with the time of a packet at our own rate, the fast ones of eight in jitter of 10 ms saw less of their common queue
// than the slow ones, and took the path from them; and a rate that had collapsed took jitter for a queue, and random losses kept it low. Of a queue
// that is short, and that many fill and empty again, a rise by half more than its depth may be the queue.
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

// spread returns how far the one-way delay of every round rises above its least, but not much further than above what all its packets wait: a queue
// that stands in all rounds is no jitter. Of jitter a stretch of few packets shows about three fifths, between its lowest and its greatest delay.
func (d *delay) spread() time.Duration {
	calm := &d.calmWay
	return max(min(calm.above(calm.bottom)*5/3, calm.above(d.way.least)), d.swings.wait())
}

// reach returns the round trip that a full window must span, with the jitter and the clumps of both ways.
func (d *delay) reach() time.Duration {
	return max(d.base()+d.calmTrip.above(d.rtt.least), d.swings.trip())
}

// behind returns by how much what stands on the way back, such as somebody's upload before our acks, makes a round trip longer than reach. What is
// below the target does not count: acks wait a little anyway, and of eight flows over a short queue those that had most got more.
func (d *delay) behind() time.Duration {
	if d.back <= d.target() {
		return 0
	}
	return max(d.base()+d.back-d.reach(), 0)
}

// long reports whether a round trip shows a queue. A peer that lies about times of arrival cannot hide that; nor can many that begin together, who
// have met no other delay of the path than that over their common queue, if the guess is from before.
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

// stands reports whether round trips show a queue that has outlasted our draining, and so is somebody else's.
func (d *delay) stands() bool { return d.longRounds >= drainRounds }

// firstReach returns the reach for a first flight. Our own first round trip may include the queue of all controllers that began at the same time,
// and a flight for that would be too long; the guess is from before.
func (d *delay) firstReach() time.Duration {
	if d.guess > 0 {
		return min(d.guess, d.reach())
	}
	return d.reach()
}

// pto returns the probe timeout (RFC 9002, section 6.2.1). It is no less than the round trips to which every round rises, for jitter and
// clumps are no silence.
func (d *delay) pto(ackDelay time.Duration) time.Duration {
	if d.smoothed == 0 {
		return 2*defaultRTT + ackDelay
	}
	return max(d.smoothed+max(4*d.varied, 2*time.Millisecond), d.reach()) + ackDelay
}
