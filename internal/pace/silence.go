package pace

import "time"

const (
	// darkPTOs is after how many PTOs without an ack the path is dark.
	darkPTOs = 3

	// deadline is for how long we go on sending without an ack, until we are Stopped.
	deadline = 10 * time.Second

	// heldTrips is how many round trips a packet may count for if it was sent before a silence
	// ended. It's the same in package recovery.
	heldTrips = 4
)

// A silence detects that acks don't arrive any more, and remembers what we need to know when
// they do again.
type silence struct {
	lastAck    instant // arrival of the last ack, or, if later, a packet's sending with none in flight
	lastSent   instant // when the last packet was sent
	lightSince instant // send time of the packet that ended the last outage; earlier losses don't count

	// Round trips of packets that were sent before a silence ended.
	ended   instant       // when an ack ended the last one
	maxHeld time.Duration // how long those may be; 0 if there was none
}

// trip limits a round trip that ends at t, if it spans a silence.
//
// The packet or its ack has been waiting somewhere, perhaps in the socket of this process while
// that was stopped. Such a wait is no round trip: after a pause of 12 s the probe timeout was 30
// s.
func (s *silence) trip(t instant, rtt time.Duration) time.Duration {
	if s.maxHeld > 0 && t-rtt < s.ended {
		return min(rtt, s.maxHeld)
	}
	return rtt
}

// noteSilence enters Dark or Stopped if there hasn't been an ack for long.
func (c *Controller) noteSilence(t instant, inFlight int) {
	switch silence := t - c.silence.lastAck; {
	case inFlight == 0 || c.state == Stopped:
	case silence > deadline:
		c.enter(Stopped, t)
	case silence > darkPTOs*c.PTO() && c.state != Dark:
		c.enter(Dark, t)
	}
}

// noteAck records an ack, and reports whether it ends an outage. If so, the losses in its batch
// don't count.
func (c *Controller) noteAck(t instant, newest Sample) (woke bool) {
	since := t - c.silence.lastAck
	if since > darkPTOs*c.PTO() {
		// Don't ask if we are in Dark: if the process was stopped, it didn't call Next to get
		// there.
		c.silence.ended = t
		c.silence.maxHeld = heldTrips * c.delay.smoothed
	}
	c.silence.lastAck = t
	switch {
	case c.state == Dark || c.state == Stopped:
		c.silence.lightSince = newest.sent
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

// wake goes on after a silence.
//
// If the first packet to arrive was sent before the silence, the path has merely stood still,
// and is the same as before. Otherwise it may be another path, and we start again at half of our
// old rate.
//
// Losses from before the silence don't count. A peer could exploit that by falling silent on
// purpose, so we make sure that the rate is no more than what arrived before supports.
//
// On a path that drops packets instead of queueing them we go on sharing, because there most
// silences are nothing but a few packets that were all lost, if others leave us only a little.
func (c *Controller) wake(t instant, newest Sample) {
	rate := min(c.Estimate(), c.supportedRate())
	switch {
	case c.competition.sharing.on:
		c.enter(Compete, t)
		c.delaySurge(t, c.competition.sharing.rest)
		c.cutWindow(t)
	case newest.sent < c.since && c.rates.value() > 0:
		c.rates.set(c.filling, rate)
		c.enter(Cruise, t)
	default:
		c.beginStart(t, min(rate, c.Estimate()/2))
	}
}

// resume is called when a packet is sent while none is in flight. If it has been minimumLife
// since the last, we start again.
func (c *Controller) resume(t instant) {
	c.silence.lastAck = t
	if c.round.arrived(c.delivery.total) == 0 {
		c.round.began = t
	}
	if c.silence.lastSent > 0 && t-c.silence.lastSent > minimumLife {
		c.beginStart(t, c.Estimate())
	}
}
