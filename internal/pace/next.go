package pace

import "time"

const (
	// unknownWindow is the number of packets that may be sent in the first round trip of
	// an unknown path. It is three times the initial window of RFC 9002, section 7.2,
	// because packets are paced here, so they do not arrive at a queue all at once.
	unknownWindow = 32
	// maxFirstFlight limits a first flight, in bytes, while only a train or an old
	// estimate is known. A token bucket passes a train at line rate. If the first flight
	// were a bandwidth-delay product at that rate, most of its packets would be lost.
	maxFirstFlight = 512 << 10
	// startCost is the part by which a careful first flight may lengthen a transfer.
	//
	// minFlightPart is the minimum part of the bandwidth-delay product in that flight. It
	// is small, because many controllers that start at once on a full link should not
	// each send a whole product more.
	startCost, minFlightPart = 0.03, 0.125
)

// Next returns the time at which a packet of size bytes may be sent while inFlight bytes
// are in flight. A time that is not after now means at once. The answer changes with each
// packet sent and with each Feedback.
//
// ok is false if no ack has arrived for 10 s. Then nothing may be sent until an ack
// arrives, Reset is called, or nothing is in flight any more.
func (c *Controller) Next(now time.Time, size, inFlight int) (at time.Time, ok bool) {
	t := c.tick(now)
	c.lapseLook(t)
	c.noteSilence(t, inFlight)
	next := c.pacer.next
	if c.burst.continues(t) {
		next = t
	}
	c.pacer.waited = c.pacer.waited || next > t
	switch {
	case c.state == Stopped && inFlight > 0:
		return time.Time{}, false
	case c.state == Stopped:
		// The owner discarded all packets in flight, and sends again because another
		// packet was acked.
		return c.local.time(t), true
	case c.state == Dark, inFlight+size > c.Window():
		next = max(c.silence.lastAck, c.silence.lastSent) + c.PTO()
		c.pacer.waited = false
		c.delivery.full = c.state != Dark // in Dark the pause is not due to the window
		c.round.closed = c.round.closed || c.delivery.full
	}
	return c.local.time(next), true
}

// beginStart enters Start at a rate that was measured before; 0 = none was. It abandons
// an open look.
func (c *Controller) beginStart(t instant, rate float64) {
	c.start.hint, c.start.careful, c.start.crowd = rate, rate > 0, 1
	if c.delay.rtt.known {
		c.delay.guess = 0
	}
	c.rates = maximum{round: c.filling}
	c.start.grew(0)
	c.recent, c.queue, c.look.until = 0, 0, 0
	c.enter(Start, t)
}

// Rate returns the pacing rate of bulk, in bytes per second.
func (c *Controller) Rate() float64 {
	minRate := float64(c.cfg.Packet) / c.delay.base().Seconds()
	switch c.state {
	case Dark, Stopped:
		return float64(c.cfg.Packet) / c.PTO().Seconds()
	case Compete:
		return max(c.competition.gain()*c.competition.window/max(c.delay.smoothed, 1).Seconds(), minRate)
	}
	if c.Estimate() == 0 {
		return startGain * c.assumedRate()
	}
	if c.start.careful || c.start.hint > 0 && c.starters > 1 {
		return max(c.partOf(c.Estimate()), minRate)
	}
	return max(c.gain()*c.Estimate(), minRate)
}

// assumedRate returns the estimate. While nothing is known, it returns the rate at which
// a start sends its first window.
func (c *Controller) assumedRate() float64 {
	if estimate := c.Estimate(); estimate > 0 {
		return estimate
	}
	return c.unknown() * float64(c.cfg.Packet) / c.delay.base().Seconds() / startGain
}

// gain returns the ratio of the pacing rate to the estimate.
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
// trips.
//
// Its effect is seen a round trip late. A control loop with that delay is stable if it
// corrects less than pi/2 of the error in a round trip. A correction of two thirds
// overshoots little.
func (c *Controller) steer() float64 {
	horizon := 3 * max(c.delay.base(), minStanding) / 2
	off := (c.delay.aim() - c.queueAhead()).Seconds() / horizon.Seconds()
	return min(max(1+off, minSteer), maxSteer)
}

// queueAhead returns the queue that the next packet will meet.
//
// The queue that acked packets met is a round trip old. So in the first round of a state
// the bytes in flight show whether the queue is gone. Later they do not. The estimate,
// which is the maximum of some rounds, is too high for that.
func (c *Controller) queueAhead() time.Duration {
	estimate := c.Estimate()
	if estimate == 0 || c.rounds > 0 {
		return c.queue
	}
	return min(c.queue, max(sendTime(c.inFlight, estimate)-c.delay.base()-c.gap, 0))
}

// Window returns the number of bytes that may be in flight.
func (c *Controller) Window() int {
	if c.state == Compete {
		return int(c.competition.window)
	}
	estimate := c.Estimate()
	if estimate == 0 {
		return int(c.unknown()) * c.cfg.Packet
	}
	product := estimate*c.delay.reach().Seconds() + c.unheardBytes()
	held := estimate * (2 * c.gap).Seconds() // held back by the receiver, in acks that will follow
	switch c.state {
	case Start:
		if c.start.careful || c.start.hint > 0 && (c.rounds == 0 || c.starters > 1) {
			return c.firstPart(estimate * c.delay.firstReach().Seconds())
		}
		product *= startWindow
	case Dip:
		if c.dips.common { // half of the base round trip; the reach may be longer in a standing queue
			return int(max(c.dips.rate*c.delay.base().Seconds(), c.minWindowBytes())) / 2
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
	return int(max(product+held, c.minWindowBytes()))
}

// unheardBytes returns the number of bytes that arrived but whose acks wait in a queue on
// the way back. Without them the window would leave a path idle while somebody uploads.
//
// Only the peer knows in which direction the time of a round trip is spent. So
// unheardBytes is limited to the rate that arrived in a round trip by the local clock. A
// peer that lies may have a queue filled as others fill it, and no faster.
func (c *Controller) unheardBytes() float64 {
	return min(c.Estimate(), c.carried.value()) * c.delay.behind().Seconds()
}

// firstPart returns the number of bytes of a hint's bandwidth-delay product that may be
// sent before arrivals confirm the hint, which takes a round trip.
//
// A long transfer loses little by that wait, and so may send fewer. The number also falls
// with the number of other connections that begin at the same time without the owner's
// knowledge.
func (c *Controller) firstPart(product float64) int {
	unseen := max(c.start.crowd/float64(max(c.starters, 1)), 1)
	part := 1 - startCost*unseen*float64(c.waiting)/product
	shortest := c.cfg.shortestFlight()
	flight := c.starters.part(max(part, minFlightPart) * product)
	return int(min(max(flight, min(shortest, product), c.minWindowBytes()), maxFirstFlight))
}

// minWindowBytes returns the bytes of minWindow packets.
func (c *Controller) minWindowBytes() float64 { return float64(minWindow * c.cfg.Packet) }
