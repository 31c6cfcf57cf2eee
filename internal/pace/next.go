package pace

import "time"

const (
	// unknownWindow is how many packets may leave in the first round trip of a path of which nothing is known: twice RFC 9002's
	// initial window and more, for they are paced.
	unknownWindow = 32
	// maxFirstFlight bounds the first flight over a path of which a train or an old estimate is all that is known: a token bucket
	// that passes a train at once must not get a whole bandwidth-delay product of its line rate.
	maxFirstFlight = 512 << 10
	// startCost is by which part a careful first flight may lengthen a transfer, and leastFlight the part of the product
	// that it has at least: many that start at once on a link that is full already must not fill it once more each.
	startCost, leastFlight = 0.03, 0.125
	// darkPTOs is after how many PTOs without an ack the path counts as dark, DESIGN.md 7.
	darkPTOs = 3
	// deadline is after how long without an ack sending stops, DESIGN.md 7.
	deadline = 10 * time.Second
)

// Next returns when a packet may leave while inFlight bytes are under way; a time that is not after now means at once. It
// is to be asked again after each packet and each Feedback. Not ok: nothing was heard for 10 s, and nothing may leave
// before an ack comes, or what is under way is given up, or Reset.
func (c *Controller) Next(now time.Time, size, inFlight int) (at time.Time, ok bool) {
	t := c.tick(now)
	c.lapse(t)
	c.noteSilence(t, inFlight)
	next := c.pacer.next
	c.pacer.waited = c.pacer.waited || next > t
	switch {
	case c.state == Stopped && inFlight > 0:
		return time.Time{}, false
	case c.state == Stopped: // all was given back, for an ack came of what Sent does not know
		return c.local.time(t), true
	case c.state == Dark, inFlight+size > c.Window():
		next = max(c.lastAck, c.lastSent) + c.PTO()
		c.pacer.waited, c.delivery.full = false, true
	}
	return c.local.time(next), true
}

// noteSilence takes note of silence.
func (c *Controller) noteSilence(t instant, inFlight int) {
	switch silence := t - c.lastAck; {
	case inFlight == 0 || c.state == Stopped:
	case silence > deadline:
		c.enter(Stopped, t)
	case silence > darkPTOs*c.PTO() && c.state != Dark:
		c.enter(Dark, t)
	}
}

// noteAck takes note of an ack, and tells whether it ends a silence. What was lost in the dark does not count.
func (c *Controller) noteAck(t instant, newest Sample) (woke bool) {
	since := t - c.lastAck
	c.lastAck = t
	switch {
	case c.state == Dark || c.state == Stopped:
		c.lightSince = newest.sent
		c.round.fates = tally{}
		c.wake(t, newest)
		return true
	case c.delivery.goesOn():
	case c.gap == 0:
		c.gap = min(since, c.cfg.AckDelay)
	default:
		c.gap += (min(since, c.cfg.AckDelay+c.delay.base()) - c.gap) / 16
	}
	return false
}

// wake goes on after a silence. Where a packet from before it comes first, the path stood still and is what it was. After the dark it
// may be another: it starts at half its old rate.
func (c *Controller) wake(t instant, newest Sample) {
	if newest.sent < c.since && c.rates.value() > 0 {
		c.enter(Cruise, t)
	} else {
		c.begin(t, c.Estimate()/2)
	}
}

// resume begins a flight over an empty path.
func (c *Controller) resume(t instant) {
	c.lastAck = t
	if c.lastSent > 0 && t-c.lastSent > minimumLife {
		c.begin(t, c.Estimate())
	}
}

// begin starts from a rate that was measured once. What a look of before would tell is of another time.
func (c *Controller) begin(t instant, rate float64) {
	c.hint, c.careful = rate, rate > 0
	if c.delay.rtt.known {
		c.delay.guess = 0
	}
	c.rates = maximum{round: c.filling}
	c.recent, c.full, c.flat, c.queue, c.look.until = 0, 0, 0, 0, 0
	c.enter(Start, t)
}

// Rate returns at how many bytes a second bulk is to be paced.
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

// supposed is the rate that the path is supposed to have: while nothing is known, that with which a start sends the first window.
func (c *Controller) supposed() float64 {
	if estimate := c.Estimate(); estimate > 0 {
		return estimate
	}
	return c.starters.unknown() * float64(c.cfg.Packet) / c.delay.base().Seconds() / startGain
}

// gain is the factor on the estimate.
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

// steer corrects the queue to the aim within three halves of a round trip: for an answer that comes a round trip late, a
// gain below pi/2 in one is stable, and two thirds overshoots little.
func (c *Controller) steer() float64 {
	horizon := 3 * max(c.delay.base(), minStanding) / 2
	off := (c.delay.aim() - c.queueAhead()).Seconds() / horizon.Seconds()
	return min(max(1+off, leastSteer), mostSteer)
}

// queueAhead is the queue that the next packet will meet. What packets met is a round trip old: in the first one after a drain what
// is in flight tells whether the queue is gone. Later it would be too fine a scale, for the estimate is the greatest of some rounds.
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

// firstPart returns how many bytes of the product that a hint promises may leave before it is confirmed, which takes a
// round trip: a long transfer loses little by waiting for that, and a short one much.
func (c *Controller) firstPart(product float64) int {
	part := 1 - startCost*float64(c.waiting)/product
	least := float64((trainPackets + 2) * c.cfg.Packet)
	return int(min(max(c.starters.part(max(part, leastFlight)*product), min(least, product), c.leastWindow()), maxFirstFlight))
}

func (c *Controller) leastWindow() float64 { return float64(minWindow * c.cfg.Packet) }
