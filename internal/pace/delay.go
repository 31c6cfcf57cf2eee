package pace

import "time"

const (
	// aimPackets is how many of our packets should be in the queue, which is alpha in TCP Vegas.
	// They are enough to keep the bottleneck from running dry.
	aimPackets = 3

	// How far the delay must spread before it counts as jitter: minJitter, jitterGrains packet
	// times at the path's rate, or 1/jitterPart of the round trip (a third of the target),
	// whichever is greatest. A smaller spread may come from how the packets were sent, and wouldn't
	// matter if it were a queue.
	minJitter, jitterGrains, jitterPart = 2 * time.Millisecond, 2, 12

	// stallPackets is how many packet times a gap in the arrivals must last to count as a stand (a
	// period in which the path delivers nothing). The gaps of a path that merely slows down are
	// shorter.
	stallPackets = 4

	// minStartFull is the shortest queue at which a start considers the path full. Anything
	// shorter may be jitter.
	minStartFull = 4 * time.Millisecond

	// A path is narrow if fewer than narrowPackets packets fit into a round trip. A look then adds
	// only a packet or two, and a payback of fixed duration removes even fewer, so on a narrow path
	// we drain until the queue is gone. Otherwise three transfers over 2 Mbit/s would keep a
	// standing queue of 100 to 170 ms.
	narrowPackets = 16
)

// A delay is the controller's delay estimator. It tracks round trips and one-way delays, and
// derives from them how much of a delay is due to the path, to jitter and to a queue.
//
// One-way delays compare two clocks that aren't synchronized, so only their differences mean
// anything.
type delay struct {
	// Round trips.
	rtt              minimum
	latest           time.Duration
	smoothed, varied time.Duration // as in RFC 6298; 0 = unknown
	guess            time.Duration // from other packets, until acks show one; 0 = unknown
	since            instant       // first ack; 0 = none yet. guess expires minimumLife later
	longRounds       int           // consecutive rounds in which every round trip was long
	back             time.Duration // shortest wait on the way back, last round; see round.minBack

	// One-way delays.
	way       minimum
	floor     minDuration // minimum since the last Dip; unlike way, it can't rise
	nearFloor instant     // when a packet was last near floor
	doubtful  bool        // the peer's clock was corrected, so floor may include a queue; see dipped

	// How far delays rise without a queue.
	calmTrip calm   // round trips
	calmWay  calm   // one-way delays
	swings   swings // the same over the last few rounds, for jitter that has only just begun

	// The bottleneck.
	grain   time.Duration // how long a packet takes at our share of the rate; 0 = unknown
	finest  time.Duration // shortest grain on this path; 0 = unknown
	depth   time.Duration // how deep its queue was when it dropped packets; 0 = unknown
	depthAt instant       // when it dropped them
}

// trip adds a batch's round trip (RFC 6298, section 2).
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

// noteGuess adds a round trip of other packets. It is ignored once acks have shown one.
func (d *delay) noteGuess(rtt time.Duration) {
	if !d.rtt.known && (d.guess == 0 || rtt < d.guess) {
		d.smoothed = rtt
		d.varied = rtt / 2
		d.guess = rtt
	}
}

// arrive adds a one-way delay.
func (d *delay) arrive(t instant, way time.Duration) {
	d.way.add(t, way)
	d.floor.note(way)
	if way <= d.floor.value+d.near() {
		d.nearFloor = t
	}
}

// noteGrain records how long a packet takes at our share of the bottleneck.
func (d *delay) noteGrain(grain time.Duration) {
	d.grain = grain
	if d.finest == 0 || grain < d.finest {
		d.finest = grain
	}
}

// still returns for how long nothing must arrive to count as a stand.
func (d *delay) still() time.Duration { return max(d.base()/4, stallPackets*d.grain) }

// pathGrew starts over with the minimum delays, because what we took for a queue turned out to be a
// longer path.
func (d *delay) pathGrew(t instant, queue time.Duration) {
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

// measureAnew starts over with one-way delays after the peer's clock was corrected. floor is the
// minimum to begin with.
func (d *delay) measureAnew(t instant, floor minDuration) {
	d.way = minimum{}
	d.calmWay = calm{}
	d.swings = swings{}
	d.nearFloor = t
	d.floor = floor
	d.doubtful = true
	d.way.add(t, floor.value)
}

// dipped records the end of a Dip. Since the path was half empty, the current minimum one-way delay
// doesn't include a queue.
func (d *delay) dipped(t instant) {
	d.nearFloor = t
	d.floor = minDuration{d.way.min, true}
	d.doubtful = false
}

// risen returns how far the minimum one-way delay has risen since the last Dip.
func (d *delay) risen() time.Duration {
	if !d.floor.known {
		return 0
	}
	return max(d.way.min-d.floor.value, 0)
}

// near returns how close to the minimum a delay must be to show that the queue was empty.
//
// It has to be shorter than the queue that we cruise with, which is a single packet at 1 Mbit/s.
// Otherwise we would forever confirm a minimum that itself includes a queue.
func (d *delay) near() time.Duration { return d.target() / 16 }

// base returns the round trip without a queue, or our best guess.
func (d *delay) base() time.Duration {
	if d.rtt.known {
		return max(d.rtt.min, time.Microsecond)
	}
	if d.smoothed > 0 {
		return d.smoothed
	}
	return defaultRTT
}

// target returns how long a standing queue may be. Two packets, one of which is being transmitted,
// are always acceptable. (Compare CoDel, which lets one full packet wait; RFC 8289, section 4.2.)
func (d *delay) target() time.Duration { return max(minStanding, d.base()/4, 2*d.grain) }

// aim returns the queue that we keep while cruising: aimPackets packets of our own, as in TCP
// Vegas. Since packets take less time at a higher rate, the faster one of two controllers that
// share a bottleneck aims for a shorter queue and gives way.
//
// The slower we are, the longer this queue is, but it must not exceed half of the target. With a
// hard limit, controllers that all reached it would have no reason to give way to each other, so
// the aim approaches the limit smoothly.
//
// The aim is never less than a packet, nor more than a third of a queue known to be short.
func (d *delay) aim() time.Duration {
	own, limit := float64(aimPackets*d.grain), float64(d.target()/2)
	aim := max(time.Duration(own*limit/(own+limit)), min(d.grain, time.Duration(limit)))
	if d.depth > 0 {
		aim = min(aim, d.depth/3)
	}
	return aim
}

// noteDepth records how deep the queue was when it dropped packets, not counting jitter.
func (d *delay) noteDepth(t instant, deep time.Duration) {
	d.depth = max(deep, shallowDepth)
	d.depthAt = t
}

// forget drops the queue's depth when it is older than minimumLife.
func (d *delay) forget(t instant) {
	if t-d.depthAt > minimumLife {
		d.depth = 0
	}
}

// short reports whether the queue is known to overflow before it is long enough to see.
func (d *delay) short() bool { return d.depth > 0 && d.depth < 2*d.target() }

// narrow reports whether only a few packets fit into a round trip, but more fit into the queue.
func (d *delay) narrow() bool { return d.base() < narrowPackets*d.finest && !d.short() }

// startFull returns the queue that shows a start that the path is full. It's the target, or less if
// the queue is known to be shallower. Without the exception, a start that begins in a short gap
// between many other flows would go on until a tenth of all packets are lost.
func (d *delay) startFull() time.Duration {
	if d.depth == 0 {
		return d.target()
	}
	return min(d.target(), max(d.depth/2, minStartFull))
}

// jitter returns how far one-way delays rise above their minimum without a queue, or 0 if that is
// too little to be distinguished from a queue.
//
// The threshold must not depend on our own rate. If it did, the faster ones of eight controllers
// would take more of their common queue for jitter than the slower ones, and squeeze them out. And
// a controller whose rate has collapsed would take jitter for a queue, so random losses would keep
// its rate low.
func (d *delay) jitter() time.Duration {
	threshold := max(jitterGrains*d.finest, d.base()/jitterPart, minJitter)
	if d.short() {
		// When many flows keep filling and emptying a short queue, delays of up to one and a
		// half times its depth may be nothing but the queue.
		threshold = max(threshold, min(d.depth*3/2, d.target()))
	}
	if j := d.spread(); j > threshold {
		return j
	}
	return 0
}

// spread returns how far above the minimum one-way delays rise in every round.
func (d *delay) spread() time.Duration {
	calm := &d.calmWay
	// A queue that stands in every round isn't jitter, so measure from the delay that all packets
	// have in common. The factor is there because a stretch of few packets shows only about three
	// fifths of the jitter.
	varying := calm.above(calm.bottom) * 5 / 3
	return max(min(varying, calm.above(d.way.min)), d.swings.wait())
}

// reach returns the round trip that a full window must cover, including jitter and aggregation in
// both directions.
func (d *delay) reach() time.Duration {
	return max(d.base()+d.calmTrip.above(d.rtt.min), d.swings.trip())
}

// behind returns by how much a round trip exceeds reach because of a queue on the way back, for
// example when our acks wait behind an upload.
func (d *delay) behind() time.Duration {
	if d.back <= d.target() {
		// Acks always wait a little. If that counted, the largest of eight flows over a short queue
		// would grow at the expense of the others.
		return 0
	}
	return max(d.base()+d.back-d.reach(), 0)
}

// long reports whether a round trip is long enough to show a queue. Unlike one-way delays, it
// doesn't depend on the arrival times in acks, which a peer may fake.
func (d *delay) long(trip time.Duration) bool {
	base := d.base()
	if d.guess > 0 {
		// The guess may be older than the queue. Without it, controllers that begin at the same
		// time would overlook their common queue, since they never see the path without that.
		base = min(base, d.guess)
	}
	return trip > base+d.calmTrip.above(d.rtt.min)+d.target()
}

// roundOver ends a round. trip is the shortest round trip in it.
func (d *delay) roundOver(trip time.Duration) {
	d.longRounds++
	if !d.long(trip) {
		d.longRounds = 0
	}
}

// stands reports whether round trips show a queue that we couldn't drain, so that it must be
// another flow's.
func (d *delay) stands() bool { return d.longRounds >= drainRounds }

// firstReach returns the reach for a first flight. It prefers the guess, because our own first
// round trip may include the queue of all flows that began at the same time, which would make the
// flight too long.
func (d *delay) firstReach() time.Duration {
	if d.guess > 0 {
		return min(d.guess, d.reach())
	}
	return d.reach()
}

// pto returns the probe timeout (RFC 9002, section 6.2.1). It is no shorter than reach, since a
// packet that is late because of jitter or aggregation isn't lost.
func (d *delay) pto(ackDelay time.Duration) time.Duration {
	if d.smoothed == 0 {
		return 2*defaultRTT + ackDelay
	}
	return max(d.smoothed+max(4*d.varied, 2*time.Millisecond), d.reach()) + ackDelay
}
