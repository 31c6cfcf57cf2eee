package pace

import "time"

const (
	// unknownWindow is how many packets may be sent in the first round trip of an unknown path. It
	// can be three times the initial window of RFC 9002, section 7.2, because these packets are
	// paced and don't arrive at a queue all at once.
	unknownWindow = 32

	// maxFirstFlight limits the bytes of a first flight, whose rate comes only from a train or an
	// old estimate. A token bucket passes a train at line rate, but would drop most of a first
	// flight that holds the bandwidth-delay product of that rate.
	maxFirstFlight = 512 << 10

	// startCost is the part of a transfer's time that a careful first flight may cost.
	// minFlightPart is the part of the bandwidth-delay product that such a flight has at least.
	// It's small because each of many controllers that start at once on a full link would otherwise
	// add a whole product.
	startCost, minFlightPart = 0.03, 0.125
)

// Next returns when a packet of size bytes may be sent while inFlight bytes are in flight. It may
// be sent at once if that time isn't after now. The answer changes with each packet sent and with
// each Feedback. Next also ends looks that have lasted long enough, and notices when acks stop
// arriving.
//
// If no ack has arrived for 10 s, ok is false, and nothing may be sent until an ack arrives, Reset
// is called, or nothing is in flight.
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
		// The owner gave up on all packets in flight, and sends again because something else was
		// acked.
		return c.local.time(t), true
	case c.state == Dark, inFlight+size > c.Window():
		// Wait for an ack, but no longer than until a probe is due.
		next = max(c.silence.lastAck, c.silence.lastSent) + c.PTO()
		c.pacer.waited = false
		c.delivery.full = c.state != Dark // in Dark, it isn't the window that stops us
		c.round.closed = c.round.closed || c.delivery.full
	}
	return c.local.time(next), true
}

// beginStart enters Start. Its hint is a rate measured earlier, or 0 if there is none.
func (c *Controller) beginStart(t instant, rate float64) {
	c.blame = blame{} // the path may have changed
	c.start.hint = rate
	c.start.careful = rate > 0
	c.start.crowd = 1
	c.start.opening = opening{}
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
		rate := max(c.partOf(c.Estimate()), minRate)
		if c.opens() {
			return openingGain * rate
		}
		return rate
	}
	return max(c.gain()*c.Estimate(), minRate)
}

// assumedRate returns the estimate or, if we don't have one yet, the rate at which a start sends
// its first window.
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
	}
	return c.steer()
}

// steer returns the gain that brings the queue to the aim within one and a half round trips.
//
// We see the effect of a correction a round trip late. A control loop with such a delay is stable
// if it corrects less than pi/2 of the error per round trip. At two thirds it overshoots only a
// little.
func (c *Controller) steer() float64 {
	horizon := 3 * max(c.delay.base(), minStanding) / 2
	off := (c.delay.aim() - c.queueAhead()).Seconds() / horizon.Seconds()
	return min(max(1+off, minSteer), maxSteer)
}

// queueAhead estimates the queue that the next packet will meet.
func (c *Controller) queueAhead() time.Duration {
	estimate := c.Estimate()
	if estimate == 0 || c.rounds > 0 {
		return c.queue
	}
	// The queue that acked packets met is a round trip old, from before we entered this state. So
	// for one round, look at the bytes in flight to see if the queue is gone. They can't be used
	// for longer, because the estimate is the maximum over several rounds and thus too high.
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
	case Cruise:
		product *= lookGain
	}
	return int(max(product+held, c.minWindowBytes()))
}

// unheardBytes returns how many bytes have arrived whose acks still wait in a queue on the way
// back. If the window didn't include them, the path would be idle during an upload in the other
// direction.
//
// How the round trip divides into its two directions is only the peer's word, and a lying peer
// could make us fill a queue on the way there. We therefore limit the rate to what arrived in a
// round trip by our own clock, so that the peer can't make the queue any fuller than other flows
// could.
func (c *Controller) unheardBytes() float64 {
	return min(c.Estimate(), c.carried.value()) * c.delay.behind().Seconds()
}

// firstPart returns how many bytes of a hint's bandwidth-delay product may be sent before
// arrivals have confirmed the hint, which takes a round trip.
//
// A long transfer begins with less, because it can afford to wait for that. We also begin with less
// if other connections that the owner doesn't know about seem to be starting.
func (c *Controller) firstPart(product float64) int {
	unseen := max(c.start.crowd/float64(max(c.starters, 1)), 1)
	part := 1 - startCost*unseen*float64(c.waiting)/product
	shortest := c.cfg.shortestFlight()
	flight := c.starters.part(max(part, minFlightPart) * product)
	return int(min(max(flight, min(shortest, product), c.minWindowBytes()), maxFirstFlight))
}

// minWindowBytes returns the size of minWindow packets.
func (c *Controller) minWindowBytes() float64 { return float64(minWindow * c.cfg.Packet) }
