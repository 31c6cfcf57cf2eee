package pace

import "time"

// aimPackets is Vegas' alpha: enough that the bottleneck does not run dry between packets.
const aimPackets = 3

// delay knows round trips, and the one-way delay of arrivals, of which only differences mean anything.
type delay struct {
	rtt              minimum
	latest           time.Duration
	smoothed, varied time.Duration // RFC 6298
	way              minimum
	grain            time.Duration // that a packet takes at the bottleneck
	touched          instant       // when the one-way delay was last near its minimum
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
		d.touched = t
	}
}

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
// bottleneck the faster one wants the shorter queue and yields; half of the target at most, for where the bound is reached
// both want the same and neither yields; and no less than a packet.
func (d *delay) aim() time.Duration { return max(d.grain, min(aimPackets*d.grain, d.target()/2)) }

// pto is RFC 9002's probe timeout.
func (d *delay) pto(ackDelay time.Duration) time.Duration {
	if d.smoothed == 0 {
		return 2*defaultRTT + ackDelay
	}
	return d.smoothed + max(4*d.varied, 2*time.Millisecond) + ackDelay
}
