package pace

import "time"

const (
	// unknownWindow is how many packets may be sent in the first round trip of an unknown path.
	// We can afford three times the initial window of RFC 9002, section 7.2, since packets are
	// paced here and don't arrive at a queue all at once.
	unknownWindow = 32

	// maxFirstFlight limits the bytes of a first flight while all we have is a train's word or
	// an old estimate. A token bucket passes a train at line rate, and would drop most of a
	// first flight of the bandwidth-delay product at that rate.
	maxFirstFlight = 512 << 10

	// startCost is how much longer a transfer may take because of a careful first flight, as a
	// part of its time. minFlightPart is how much of the bandwidth-delay product is in that
	// flight at least. It's small because many controllers may start at once on a full link, and
	// they shouldn't each add a whole product.
	startCost, minFlightPart = 0.03, 0.125
)

// Next returns when a packet of size bytes may be sent while inFlight bytes are in flight. A time
// that isn't after now means at once. The answer changes with each packet sent and with each
// Feedback.
//
// ok is false if no ack has arrived for 10 s. Nothing may be sent then until an ack arrives,
// Reset is called, or nothing is in flight.
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
		// The owner has given up on all packets in flight, and sends again because something
		// else was acked.
		return c.local.time(t), true
	case c.state == Dark, inFlight+size > c.Window():
		// Wait for an ack, but not longer than until a probe is due.
		next = max(c.silence.lastAck, c.silence.lastSent) + c.PTO()
		c.pacer.waited = false
		c.delivery.full = c.state != Dark // in Dark it isn't the window that makes us pause
		c.round.closed = c.round.closed || c.delivery.full
	}
	return c.local.time(next), true
}

// beginStart enters Start, with a rate measured earlier as its hint; 0 = none.
func (c *Controller) beginStart(t instant, rate float64) {
	c.start.hint = rate
	c.start.careful = rate > 0
	c.start.crowd = 1
	c.start.grew(0)
	if c.delay.rtt.known {
		c.delay.guess = 0
	}
	c.rates = maximum{round: c.filling}
	c.recent = 0
	c.queue = 0
	c.look.until = 0 // abandon an open look
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

// assumedRate returns the estimate or, while we know nothing, the rate at which a start sends its
// first window.
func (c *Controller) assumedRate() float64 {
	if estimate := c.Estimate(); estimate > 0 {
		return estimate
	}
	return c.unknown() * float64(c.cfg.Packet) / c.delay.base().Seconds() / startGain
}

// gain returns the pacing rate as a multiple of the estimate.
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

// steer returns the gain that brings the queue to the aim within one and a half round trips.
//
// We see its effect a round trip late. A control loop with that delay is stable if it corrects
// less than pi/2 of the error per round trip, and at two thirds it overshoots only a little.
func (c *Controller) steer() float64 {
	horizon := 3 * max(c.delay.base(), minStanding) / 2
	off := (c.delay.aim() - c.queueAhead()).Seconds() / horizon.Seconds()
	return min(max(1+off, minSteer), maxSteer)
}

// queueAhead returns the queue that the next packet will meet, as far as we can tell.
func (c *Controller) queueAhead() time.Duration {
	estimate := c.Estimate()
	if estimate == 0 || c.rounds > 0 {
		return c.queue
	}
	// What acked packets met is a round trip old, from before we entered this state. For a round
	// we look at the bytes in flight to see if the queue is gone. In the long run they won't do,
	// since the estimate is the maximum over several rounds and thus too high.
	return min(c.queue, max(sendTime(c.inFlight, estimate)-c.delay.base()-c.gap, 0))
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
	product := estimate*c.delay.reach().Seconds() + c.unheardBytes()
	held := estimate * (2 * c.gap).Seconds() // arrived, but not acked before the next feedback
	switch c.state {
	case Start:
		if c.start.careful || c.start.hint > 0 && (c.rounds == 0 || c.starters > 1) {
			return c.firstPart(estimate * c.delay.firstReach().Seconds())
		}
		product *= startWindow
	case Dip:
		if c.dips.common {
			// Go by base, since reach may include a part of the queue that we want to drain.
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

// unheardBytes returns how many bytes have arrived while their acks still wait in a queue on the
// way back. Without them in the window, the path would be idle while somebody uploads.
//
// We have only the peer's word for which direction takes how long. A lying peer could have us
// fill a queue on the way there, so we limit the rate to what arrived in a round trip by our own
// clock. It then gets the queue no fuller than others could.
func (c *Controller) unheardBytes() float64 {
	return min(c.Estimate(), c.carried.value()) * c.delay.behind().Seconds()
}

// firstPart returns how many bytes of a hint's bandwidth-delay product may be sent before
// arrivals have confirmed the hint, which takes a round trip.
//
// A long transfer can afford to wait for that and begin with less. We also begin with less if
// there seem to be other connections starting that the owner doesn't know about.
func (c *Controller) firstPart(product float64) int {
	unseen := max(c.start.crowd/float64(max(c.starters, 1)), 1)
	part := 1 - startCost*unseen*float64(c.waiting)/product
	shortest := c.cfg.shortestFlight()
	flight := c.starters.part(max(part, minFlightPart) * product)
	return int(min(max(flight, min(shortest, product), c.minWindowBytes()), maxFirstFlight))
}

// minWindowBytes returns the size of minWindow packets.
func (c *Controller) minWindowBytes() float64 { return float64(minWindow * c.cfg.Packet) }
