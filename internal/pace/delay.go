package pace

import "time"

const (
	// aimPackets is the number of packets that the queue should hold, TCP Vegas' alpha:
	// enough that the bottleneck does not run dry.
	aimPackets = 3
	// The minimum jitter is minJitter, jitterGrains packet times at the path's rate, or
	// 1/jitterPart of the round trip (a third of the target), whichever is greatest. A
	// smaller spread of the delay may be due to how packets are sent, and is no queue
	// that matters.
	minJitter, jitterGrains, jitterPart = 2 * time.Millisecond, 2, 12
	// stallPackets is the length of the shortest stand, in packet times. A path that
	// becomes slower makes shorter gaps.
	stallPackets = 4
	// minStartFull is the shortest queue that a start takes for a full one. A shorter one
	// may be jitter.
	minStartFull = 4 * time.Millisecond
	// A round trip of a narrow path holds fewer than narrowPackets packets. There a look
	// adds a packet or two, and a payback of fixed duration removes fewer. So the drain
	// after a look lasts until the queue is gone. When it did not, a queue of 100 to 170
	// ms stood beside two transfers of others over 2 Mbit/s.
	narrowPackets = 16
)

// A delay measures round trips and the one-way delays of arrivals. Only differences of
// one-way delays mean anything.
type delay struct {
	rtt              minimum
	latest           time.Duration
	smoothed, varied time.Duration // as in RFC 6298; 0 = unknown
	guess            time.Duration // round trip of other packets, used until acks show one; 0 = unknown
	// When acks first showed one; 0 = never. The guess is dropped minimumLife later.
	since instant
	way   minimum // minimum one-way delay
	// Time that a packet takes at our share of the bottleneck; 0 = unknown.
	grain  time.Duration
	finest time.Duration // minimum grain on this path; 0 = unknown
	// Minimum one-way delay since the last Dip. Unlike way it does not rise while the
	// controller never looks for less.
	floor     minDuration
	nearFloor instant // when the one-way delay was last near floor
	// The floor is from before the peer's clock was corrected, and may include a queue.
	// Cleared by a Dip.
	doubtful   bool
	back       time.Duration // minimum wait on the way back in the last round; see round.minBack
	calmTrip   calm          // height to which round trips rise without a queue
	calmWay    calm          // height to which one-way delays rise without a queue
	swings     swings        // the same in the last rounds, for jitter that has just begun
	longRounds int           // consecutive rounds in which every round trip was long
	depth      time.Duration // depth of the bottleneck's queue, as losses showed it; 0 = unknown
	depthAt    instant       // when the queue dropped those packets
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
		d.smoothed = rtt
		d.varied = rtt / 2
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
		d.nearFloor = t
	}
}

// noteGrain records the time that a packet takes at our share of the bottleneck.
func (d *delay) noteGrain(grain time.Duration) {
	d.grain = grain
	if d.finest == 0 || grain < d.finest {
		d.finest = grain
	}
}

// still returns the shortest gap between arrivals that shows a stand.
func (d *delay) still() time.Duration { return max(d.base()/4, stallPackets*d.grain) }

// forgetLeast forgets the minimum delays, because the path has become longer by the delay
// that seemed to be a queue.
func (d *delay) forgetLeast(t instant, queue time.Duration) {
	way := d.way.min + queue
	d.rtt = minimum{}
	d.way = minimum{}
	d.guess = 0
	d.rtt.add(t, d.latest)
	d.way.add(t, way)
	d.calmTrip = calm{}
	d.calmWay = calm{}
	d.swings = swings{}
	d.nearFloor = t
	d.floor = minDuration{}
	d.doubtful = false
}

// measureAnew restarts the measurement of one-way delays with floor as the minimum,
// because the peer's clock was corrected.
func (d *delay) measureAnew(t instant, floor minDuration) {
	d.way = minimum{}
	d.calmWay = calm{}
	d.swings = swings{}
	d.nearFloor = t
	d.floor = floor
	d.doubtful = true
	d.way.add(t, floor.value)
}

// dipped records that the path was left half empty, so the current minimum delay is the
// path's.
func (d *delay) dipped(t instant) {
	d.nearFloor = t
	d.floor = minDuration{d.way.min, true}
	d.doubtful = false
}

// risen returns the rise of the minimum one-way delay since the last Dip.
func (d *delay) risen() time.Duration {
	if !d.floor.known {
		return 0
	}
	return max(d.way.min-d.floor.value, 0)
}

// near returns the maximum excess over the minimum delay that counts as no queue.
//
// It is well below the target, and below the queue at which a sender cruises. Otherwise
// at 1 Mbit/s, where that queue is one packet, a minimum delay that includes a queue
// would be near itself forever.
func (d *delay) near() time.Duration { return d.target() / 16 }

// base returns the path's round trip without a queue, or the best guess of it.
func (d *delay) base() time.Duration {
	if d.rtt.known {
		return max(d.rtt.min, time.Microsecond)
	}
	if d.smoothed > 0 {
		return d.smoothed
	}
	return defaultRTT
}

// target returns the shortest standing queue that is too long. Two packets, of which one
// is being sent, are no queue (compare RFC 8289, section 4.2, where CoDel lets a full
// packet wait).
func (d *delay) target() time.Duration { return max(minStanding, d.base()/4, 2*d.grain) }

// aim returns the queue that cruising steers for: aimPackets of our own, as in TCP Vegas.
// So of two controllers that share a bottleneck the faster one wants the shorter queue,
// and yields.
//
// The aims of many slow controllers together must not exceed half of the target. Nor may
// each aim be equal to that half, because then nobody would yield. So the aim approaches
// it smoothly.
//
// The aim is at least a packet, and at most a third of a short queue's depth.
func (d *delay) aim() time.Duration {
	own, limit := float64(aimPackets*d.grain), float64(d.target()/2)
	aim := max(time.Duration(own*limit/(own+limit)), min(d.grain, time.Duration(limit)))
	if d.depth > 0 {
		aim = min(aim, d.depth/3)
	}
	return aim
}

// noteDepth records that the queue dropped packets at this depth, which excludes jitter.
func (d *delay) noteDepth(t instant, deep time.Duration) {
	d.depth = max(deep, shallowDepth)
	d.depthAt = t
}

// forget forgets the queue's depth once it is older than minimumLife.
func (d *delay) forget(t instant) {
	if t-d.depthAt > minimumLife {
		d.depth = 0
	}
}

// short reports whether the queue is known to drop packets before it is deep enough to be
// seen.
func (d *delay) short() bool { return d.depth > 0 && d.depth < 2*d.target() }

// narrow reports whether a round trip of the path holds few packets, and its queue more.
func (d *delay) narrow() bool { return d.base() < narrowPackets*d.finest && !d.short() }

// startFull returns the queue at which a start has filled the path: the target, or less
// if the queue is known to be shorter. Otherwise a start that begins in a short gap
// between many flows would continue until a tenth of all packets is lost.
func (d *delay) startFull() time.Duration {
	if d.depth == 0 {
		return d.target()
	}
	return min(d.target(), max(d.depth/2, minStartFull))
}

// jitter returns the height to which the one-way delay rises above its minimum without a
// queue, or 0 if that is too little to tell.
//
// What is too little depends on the path alone. When it grew with the time of a packet at
// our own rate, the fast ones of eight controllers in jitter of 10 ms saw less of their
// common queue than the slow ones, and took the path from them. Also, a collapsed rate
// took jitter for a queue, and random losses kept it low.
//
// If a queue is short, and many flows fill and empty it again, a rise of up to one and a
// half times its depth may be the queue.
func (d *delay) jitter() time.Duration {
	threshold := max(jitterGrains*d.finest, d.base()/jitterPart, minJitter)
	if d.short() {
		threshold = max(threshold, min(d.depth*3/2, d.target()))
	}
	if j := d.spread(); j > threshold {
		return j
	}
	return 0
}

// spread returns the height to which the one-way delay of every round rises above its
// minimum. A queue that stands in all rounds is no jitter, so spread does not return much
// more than the rise above the wait common to all packets.
//
// A stretch of few packets shows about three fifths of the jitter, between its lowest and
// its maximum delay.
func (d *delay) spread() time.Duration {
	calm := &d.calmWay
	return max(min(calm.above(calm.bottom)*5/3, calm.above(d.way.min)), d.swings.wait())
}

// reach returns the round trip that a full window must span, including the jitter and the
// aggregation of both directions.
func (d *delay) reach() time.Duration {
	return max(d.base()+d.calmTrip.above(d.rtt.min), d.swings.trip())
}

// behind returns the excess of a round trip over reach that is due to a queue on the way
// back, such as the queue of somebody's upload ahead of our acks.
//
// A queue below the target does not count. Acks always wait a little, and when that
// counted, the flows with the largest share of eight over a short queue got more.
func (d *delay) behind() time.Duration {
	if d.back <= d.target() {
		return 0
	}
	return max(d.base()+d.back-d.reach(), 0)
}

// long reports whether a round trip shows a queue. A peer that lies about arrival times
// cannot hide such a queue.
//
// The guess may be from before the queue. Then controllers that begin together cannot
// overlook their common queue either, although they have met no delay of the path without
// it.
func (d *delay) long(trip time.Duration) bool {
	base := d.base()
	if d.guess > 0 {
		base = min(base, d.guess)
	}
	return trip > base+d.calmTrip.above(d.rtt.min)+d.target()
}

// roundOver adds a round, given its minimum round trip.
func (d *delay) roundOver(trip time.Duration) {
	d.longRounds++
	if !d.long(trip) {
		d.longRounds = 0
	}
}

// stands reports whether round trips show a queue that has outlasted our draining, and so
// is somebody else's.
func (d *delay) stands() bool { return d.longRounds >= drainRounds }

// firstReach returns the reach for a first flight. Our own first round trip may include
// the queue of all controllers that began at the same time, and would make the flight too
// long. The guess is from before that queue.
func (d *delay) firstReach() time.Duration {
	if d.guess > 0 {
		return min(d.guess, d.reach())
	}
	return d.reach()
}

// pto returns the probe timeout (RFC 9002, section 6.2.1). It is not less than the round
// trip that every round reaches, because jitter and aggregation are no silence.
func (d *delay) pto(ackDelay time.Duration) time.Duration {
	if d.smoothed == 0 {
		return 2*defaultRTT + ackDelay
	}
	return max(d.smoothed+max(4*d.varied, 2*time.Millisecond), d.reach()) + ackDelay
}
