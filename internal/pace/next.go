package pace

import "time"

const (
	// unknownWindow is how many packets may leave in the first round trip of an unknown path. It is three times the initial window of RFC 9002,
	// section 7.2: packets are paced here, so they do not arrive at a queue all at once.
	unknownWindow = 32
	// maxFirstFlight bounds a first flight when only a train or an old estimate is known. A token bucket passes a train at line rate: of a
	// bandwidth-delay product at that rate most would be lost.
	maxFirstFlight = 512 << 10
	// startCost is the part by which a careful first flight may lengthen a transfer. leastFlight is the least part of the bandwidth-delay
	// product in that flight: it is small, so that many that start at once on a full link do not each send a whole product more.
	startCost, leastFlight = 0.03, 0.125
	// darkPTOs is the number of PTOs without an ack that make the path dark.
	darkPTOs = 3
	// deadline is how long sending goes on without an ack; then the state is Stopped.
	deadline = 10 * time.Second
)

// Next returns when a packet may leave while inFlight bytes are in flight; a time that is not after now means at once. The answer
// changes with each packet and each Feedback. It is not ok when no ack has come for 10 s: then nothing may leave before an ack, a
// Reset, or until nothing is in flight any more.
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
	case c.state == Stopped: // the owner has given up all that was in flight, and sends again because another packet was acked
		return c.local.time(t), true
	case c.state == Dark, inFlight+size > c.Window():
		next = max(c.lastAck, c.lastSent) + c.PTO()
		c.pacer.waited = false
		c.delivery.full = c.state != Dark // in the dark it is not the window that makes the sender pause
	}
	return c.local.time(next), true
}

// noteSilence enters Dark or Stopped when no ack has come for long.
func (c *Controller) noteSilence(t instant, inFlight int) {
	switch silence := t - c.lastAck; {
	case inFlight == 0 || c.state == Stopped:
	case silence > deadline:
		c.enter(Stopped, t)
	case silence > darkPTOs*c.PTO() && c.state != Dark:
		c.enter(Dark, t)
	}
}

// noteAck notes an ack, and reports whether it ends a silence; then the losses of its batch do not count.
func (c *Controller) noteAck(t instant, newest Sample) (woke bool) {
	since := t - c.lastAck
	c.lastAck = t
	switch {
	case c.state == Dark || c.state == Stopped:
		c.lightSince = newest.sent
		c.round.fates = tally{}
		c.wake(t, newest)
		return true
	case c.delivery.standEnded():
	case c.gap == 0:
		c.gap = min(since, c.cfg.AckDelay)
	default:
		c.gap += (min(since, c.cfg.AckDelay+c.delay.base()) - c.gap) / 16
	}
	return false
}

// wake goes on after a silence. When the first packet to arrive had left before the silence, the path only stood still, and is the same as before.
// Otherwise it may be another path: the controller starts anew, at half of its old rate. The losses before a silence do not count. A peer may use
// that by being silent on purpose, so the rate is no more than the earlier arrivals bear out.
func (c *Controller) wake(t instant, newest Sample) {
	rate := min(c.Estimate(), c.borneOut())
	if newest.sent < c.since && c.rates.value() > 0 {
		c.rates.set(c.filling, rate)
		c.enter(Cruise, t)
	} else {
		c.begin(t, min(rate, c.Estimate()/2))
	}
}

// resume is called when a packet leaves while none is in flight. After minimumLife without one it starts anew.
func (c *Controller) resume(t instant) {
	c.lastAck = t
	if c.round.arrived(c.delivery.total) == 0 {
		c.round.began = t
	}
	if c.lastSent > 0 && t-c.lastSent > minimumLife {
		c.begin(t, c.Estimate())
	}
}

// begin enters Start at a rate that was measured before; 0 = none was. It gives up a look that is open.
func (c *Controller) begin(t instant, rate float64) {
	c.hint, c.careful, c.crowd = rate, rate > 0, 1
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
		return max(lookGain*c.competition.window/max(c.delay.smoothed, 1).Seconds(), least)
	}
	if c.Estimate() == 0 {
		return startGain * c.supposed()
	}
	if c.careful || c.hint > 0 && c.starters > 1 {
		return max(c.starters.part(c.Estimate()), least)
	}
	return max(c.gain()*c.Estimate(), least)
}

// supposed returns the estimate, or, while nothing is known, the rate at which a start sends its first window.
func (c *Controller) supposed() float64 {
	if estimate := c.Estimate(); estimate > 0 {
		return estimate
	}
	return c.starters.unknown() * float64(c.cfg.Packet) / c.delay.base().Seconds() / startGain
}

// gain returns the factor by which the pacing rate exceeds the estimate.
func (c *Controller) gain() float64 {
	switch c.state {
	case Start:
		if c.careful {
			return 1
		}
		return startGain
	case Up:
		return c.push()
	case Drain:
		if c.payingBack {
			return c.payback()
		}
		return emptyGain
	}
	return c.steer()
}

// steer returns the gain that brings the queue to the aim within one and a half round trips. Its effect is seen a round trip late. A control loop
// with that delay is stable if it corrects less than pi/2 of the error in a round trip; two thirds overshoot little.
func (c *Controller) steer() float64 {
	horizon := 3 * max(c.delay.base(), minStanding) / 2
	off := (c.delay.aim() - c.queueAhead()).Seconds() / horizon.Seconds()
	return min(max(1+off, leastSteer), mostSteer)
}

// queueAhead returns the queue that the next packet will meet. What acked packets have met is a round trip old, so in the first round of a state
// the bytes in flight show whether the queue is gone. Later they do not, because the estimate, the greatest of some rounds, is too high for that.
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
		return int(c.starters.unknown()) * c.cfg.Packet
	}
	product := estimate * c.delay.reach().Seconds()
	held := estimate * (2 * c.gap).Seconds() // by the receiver, in acks to come
	switch c.state {
	case Start:
		if c.careful || c.hint > 0 && (c.rounds == 0 || c.starters > 1) {
			return c.firstPart(estimate * c.delay.firstReach().Seconds())
		}
		product *= startWindow
	case Dip:
		product /= 2
	case Up:
		product *= lookGain * c.push()
	case Drain:
		if c.payingBack {
			product *= lookGain * c.push()
		}
	case Cruise:
		product *= lookGain
	}
	return int(max(product+held, c.leastWindow()))
}

// firstPart returns how many bytes of a hint's bandwidth-delay product may leave before arrivals confirm the hint, which takes a round trip. A long
// transfer loses little by that wait, and so has fewer. There are fewer, too, the more others begin at the same time of whom the owner does
// not know.
func (c *Controller) firstPart(product float64) int {
	unseen := max(c.crowd/float64(max(c.starters, 1)), 1)
	part := 1 - startCost*unseen*float64(c.waiting)/product
	least := float64((trainPackets + 2) * c.cfg.Packet)
	return int(min(max(c.starters.part(max(part, leastFlight)*product), min(least, product), c.leastWindow()), maxFirstFlight))
}

func (c *Controller) leastWindow() float64 { return float64(minWindow * c.cfg.Packet) }
