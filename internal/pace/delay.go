package pace

import "time"

const (
	// aimPackets is Vegas' alpha: enough that the bottleneck does not run dry between packets.
	aimPackets = 3
	// jitterGrains is how many packets' time jitter is at least; below, what is sent shapes the delays.
	jitterGrains = 2
	// stallPackets is the time of how many packets without one is more than a slower path makes at once.
	stallPackets = 4
	// leastStartFull is the least queue that a start takes for a full one: below, it may be jitter.
	leastStartFull = 4 * time.Millisecond
)

// delay knows round trips, and the one-way delay of arrivals, of which only differences mean anything.
type delay struct {
	rtt              minimum
	latest           time.Duration
	smoothed, varied time.Duration // RFC 6298
	guess            time.Duration // round trip by other packets, before acks told one; 0 = unknown
	way              minimum
	grain            time.Duration // that a packet takes at the bottleneck
	nearLeast        instant       // when the one-way delay was last near its minimum
	calmTrip         calm          // of round trips
	calmWay          calm          // of one-way delays
	depth            time.Duration // of the bottleneck's queue, as losses have shown it; 0 = unknown
	depthAt          instant       // when they did
}

// trip takes a round trip, that of the packet whose ack was held back least.
func (d *delay) trip(t instant, rtt time.Duration) {
	d.rtt.add(t, rtt)
	d.latest = rtt
	if d.smoothed == 0 {
		d.smoothed, d.varied = rtt, rtt/2
		return
	}
	d.varied += ((d.smoothed - rtt).Abs() - d.varied) / 4
	d.smoothed += (rtt - d.smoothed) / 8
}

// arrive takes a one-way delay.
func (d *delay) arrive(t instant, way time.Duration) {
	d.way.add(t, way)
	if way <= d.way.least+d.near() {
		d.nearLeast = t
	}
}

// still is for how long nothing arrives where the path has stood still.
func (d *delay) still() time.Duration { return max(d.base()/4, stallPackets*d.grain) }

// near is what counts as no queue: well below the target and above what clocks and timers blur, and no less than the time
// of the packet itself, which the least delay does not hold when a faster bottleneck measured it.
func (d *delay) near() time.Duration { return max(d.target()/16, d.grain) }

// base is the path's round trip without a queue.
func (d *delay) base() time.Duration {
	if d.rtt.known {
		return max(d.rtt.least, time.Microsecond)
	}
	if d.smoothed > 0 {
		return d.smoothed
	}
	return defaultRTT
}

// target is the standing queue that is too much, DESIGN.md 7. Two packets, of which one is being sent, are none (RFC 8289,
// 4.2: CoDel lets a full packet wait).
func (d *delay) target() time.Duration { return max(minStanding, d.base()/4, 2*d.grain) }

// aim is the queue that cruising steers for: aimPackets of its own, as TCP Vegas has it, so that of two that share a
// bottleneck the faster one wants the shorter queue and yields. Many slow ones together must not want more than half of the
// target, nor may all want the same, for then nobody yields: so the aim bends towards that half. It is no less than a
// packet, and a queue that is too short for it is not to be filled.
func (d *delay) aim() time.Duration {
	own, most := float64(aimPackets*d.grain), float64(d.target()/2)
	aim := max(time.Duration(own*most/(own+most)), min(d.grain, time.Duration(most)))
	if d.depth > 0 {
		aim = min(aim, d.depth/3)
	}
	return aim
}

// noteDepth notes that the queue dropped when it was so deep, jitter left aside.
func (d *delay) noteDepth(t instant, deep time.Duration) {
	d.depth, d.depthAt = max(deep, shallow), t
}

// forget drops what is older than a route may last.
func (d *delay) forget(t instant) {
	if t-d.depthAt > minimumLife {
		d.depth = 0
	}
}

// short reports that the queue drops before it stands long enough to be seen.
func (d *delay) short() bool { return d.depth > 0 && d.depth < 2*d.target() }

// startFull is the queue at which a start has filled the path. One that is too short for the target is full before; without it a
// start in a crowd, begun in a moment's gap, goes on until a tenth of what all send is lost.
func (d *delay) startFull() time.Duration {
	if d.depth == 0 {
		return d.target()
	}
	return min(d.target(), max(d.depth/2, leastStartFull))
}

// jitter is how far the one-way delay comes up above its least without a queue; 0 below what clocks tell.
func (d *delay) jitter() time.Duration {
	if j := d.spread(); j > max(jitterGrains*d.grain, 2*time.Millisecond) {
		return j
	}
	return 0
}

// spread is how far the one-way delay of every round comes up above its least.
func (d *delay) spread() time.Duration { return d.calmWay.above(d.way.least) }

// reach is the round trip that a full window must span: the jitter and the clumps of both ways included.
func (d *delay) reach() time.Duration { return d.base() + d.calmTrip.above(d.rtt.least) }

// firstReach is the reach of a first flight. The first round trip of our own may hold the queue of all who began at the same time,
// into which a flight that long would go on; the guess is from before.
func (d *delay) firstReach() time.Duration {
	if d.guess > 0 {
		return min(d.guess, d.reach())
	}
	return d.reach()
}

// pto is RFC 9002's probe timeout, and no less than the round trips that every round of packets comes up to: jitter and
// clumps are no silence.
func (d *delay) pto(ackDelay time.Duration) time.Duration {
	if d.smoothed == 0 {
		return 2*defaultRTT + ackDelay
	}
	return max(d.smoothed+max(4*d.varied, 2*time.Millisecond), d.reach()) + ackDelay
}
