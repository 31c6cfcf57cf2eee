package pace

import "time"

const (
	// unknownWindow is how many packets may be sent in the first round trip of an
	// unknown path. It is three times the initial window of RFC 9002, section 7.2,
	// because packets are paced here, so they do not arrive at a queue all at once.
	unknownWindow = 32
	// maxFirstFlight limits a first flight, in bytes, while only a train or an
	// old estimate is known. A token bucket passes a train at line rate: of a
	// bandwidth-delay product at that rate most packets would be lost.
	maxFirstFlight = 512 << 10
	// startCost is the part by which a careful first flight may lengthen a transfer. leastFlight
	// is the least part of the bandwidth-delay product in that flight. It is small, so that many
	// controllers that start at once on a full link do not each send a whole product more.
	startCost, leastFlight = 0.03, 0.125
)

// Next returns when a packet of size bytes may be sent while inFlight bytes are in
// flight. A time that is not after now means at once. The answer changes with each packet
// sent and each Feedback. ok is false if no ack has arrived for 10 s: then nothing may be
// sent until an ack arrives, Reset is called, or nothing is in flight any more.
func (c *Controller) Next(now time.Time, size, inFlight int) (at time.Time, ok bool) {
	t := c.tick(now)
	c.lapse(t)
	c.noteSilence(t, inFlight)
	next := c.pacer.next
	if c.burst.goesOn(t) {
		next = t
	}
	c.pacer.waited = c.pacer.waited || next > t
	switch {
	case c.state == Stopped && inFlight > 0:
		return time.Time{}, false
	case c.state == Stopped: // the owner has discarded all that was in flight, and sends again because another packet was acked
		return c.local.time(t), true
	case c.state == Dark, inFlight+size > c.Window():
		next = max(c.silence.lastAck, c.silence.lastSent) + c.PTO()
		c.pacer.waited = false
		c.delivery.full = c.state != Dark // in Dark it is not the window that makes the sender pause
		c.round.closed = c.round.closed || c.delivery.full
	}
	return c.local.time(next), true
}

// begin enters Start at a rate that was measured before; 0 = none was. It
// abandons a look that is open.
func (c *Controller) begin(t instant, rate float64) {
	c.start.hint, c.start.careful, c.start.crowd = rate, rate > 0, 1
	if c.delay.rtt.known {
		c.delay.guess = 0
	}
	c.rates = maximum{round: c.filling}
	c.start.grew(0)
	c.recent, c.queue, c.look.until = 0, 0, 0
	c.enter(Start, t)
}

// Rate returns the rate at which to pace bulk, in bytes a second.
func (c *Controller) Rate() float64 {
	least := float64(c.cfg.Packet) / c.delay.base().Seconds()
	switch c.state {
	case Dark, Stopped:
		return float64(c.cfg.Packet) / c.PTO().Seconds()
	case Compete:
		return max(c.competition.gain()*c.competition.window/max(c.delay.smoothed, 1).Seconds(), least)
	}
	if c.Estimate() == 0 {
		return startGain * c.supposed()
	}
	if c.start.careful || c.start.hint > 0 && c.starters > 1 {
		return max(c.partOf(c.Estimate()), least)
	}
	return max(c.gain()*c.Estimate(), least)
}

// supposed returns the estimate or, while nothing is known, the rate at which a
// start sends its first window.
func (c *Controller) supposed() float64 {
	if estimate := c.Estimate(); estimate > 0 {
		return estimate
	}
	return c.unknown() * float64(c.cfg.Packet) / c.delay.base().Seconds() / startGain
}

// gain returns the factor by which the pacing rate exceeds the estimate.
func (c *Controller) gain() float64 {
	switch c.state {
	case Start:
		if c.start.careful {
			return 1
		}
		return startGain
	case Up:
		return c.push()
	case Drain:
		if c.looks.payingBack {
			return c.payback()
		}
		return emptyGain
	case Yield:
		return yieldGain
	}
	return c.steer()
}

// steer returns the gain that brings the queue to the aim within one and a half round
// trips. Its effect is seen a round trip late. A control loop with that delay is stable if
// it corrects less than pi/2 of the error in a round trip; two thirds overshoot little.
func (c *Controller) steer() float64 {
	horizon := 3 * max(c.delay.base(), minStanding) / 2
	off := (c.delay.aim() - c.queueAhead()).Seconds() / horizon.Seconds()
	return min(max(1+off, leastSteer), mostSteer)
}

// queueAhead returns the queue that the next packet will meet. What acked
// packets have met is a round trip old, so in the first round of a state the
// bytes in flight show whether the queue is gone. Later they do not, because
// the estimate, which is the greatest of some rounds, is too high for that.
func (c *Controller) queueAhead() time.Duration {
	estimate := c.Estimate()
	if estimate == 0 || c.rounds > 0 {
		return c.queue
	}
	return min(c.queue, max(over(c.inFlight, estimate)-c.delay.base()-c.gap, 0))
}

// Window returns how many bytes may be in flight.
func (c *Controller) Window() int {
	if c.state == Compete {
		return int(c.competition.window)
	}
	estimate := c.Estimate()
	if estimate == 0 {
		return int(c.unknown()) * c.cfg.Packet
	}
	product := estimate*c.delay.reach().Seconds() + c.unheard()
	held := estimate * (2 * c.gap).Seconds() // held back by the receiver, in acks that will follow
	switch c.state {
	case Start:
		if c.start.careful || c.start.hint > 0 && (c.rounds == 0 || c.starters > 1) {
			return c.firstPart(estimate * c.delay.firstReach().Seconds())
		}
		product *= startWindow
	case Dip:
		if c.dips.common { // half of the base round trip: in a standing queue the reach may be longer
			return int(max(c.dips.rate*c.delay.base().Seconds(), c.leastWindow())) / 2
		}
		product /= 2
	case Up:
		product *= lookGain * c.push()
	case Drain:
		if c.looks.payingBack {
			product *= lookGain * c.push()
		}
	case Yield:
		product *= yieldGain * lookGain
	case Cruise:
		product *= lookGain
	}
	return int(max(product+held, c.leastWindow()))
}

// unheard returns how many bytes have arrived whose acks wait in a queue on the way back.
// Without them the window would leave a path idle while somebody uploads. Only the peer knows
// on which way the time of a round trip is spent, so unheard uses what arrived in a round trip
// by our own clock: a peer that lies may have a queue filled as others fill it, and no faster.
func (c *Controller) unheard() float64 {
	return min(c.Estimate(), c.carried.value()) * c.delay.behind().Seconds()
}

// firstPart returns how many bytes of a hint's bandwidth-delay product may be
// sent before arrivals confirm the hint, which takes a round trip. A long
// transfer loses little by that wait, and so may send fewer. The more others
// begin at the same time that the owner does not know of, the fewer there are.
func (c *Controller) firstPart(product float64) int {
	unseen := max(c.start.crowd/float64(max(c.starters, 1)), 1)
	part := 1 - startCost*unseen*float64(c.waiting)/product
	least := c.cfg.shortestFlight()
	return int(min(max(c.starters.part(max(part, leastFlight)*product), min(least, product), c.leastWindow()), maxFirstFlight))
}

// leastWindow returns the bytes of minWindow packets.
func (c *Controller) leastWindow() float64 { return float64(minWindow * c.cfg.Packet) }
