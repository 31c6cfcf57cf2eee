package pace

import "time"

const (
	// darkPTOs is the number of PTOs without an ack after which the path is dark.
	darkPTOs = 3
	// deadline is the time for which sending continues without an ack. After it the state
	// is Stopped.
	deadline = 10 * time.Second
	// heldTrips is the maximum, in round trips, that the round trip of a packet sent
	// before the end of a silence counts for. Package recovery has the same limit.
	heldTrips = 4
)

// A silence holds the times by which the controller notices that acks no longer arrive,
// and continues afterwards.
type silence struct {
	// Arrival of the last ack, or, if later, the time a packet was sent while none was in
	// flight.
	lastAck  instant
	lastSent instant // send time of the last packet
	// Send time of the packet that ended the last outage. Losses of packets sent before
	// do not count.
	lightSince instant

	ended instant // when an ack ended the last silence
	// Maximum for round trips of packets sent before then; 0 = there was no silence.
	maxHeld time.Duration
}

// trip limits the round trip that ends at t if it spans a silence.
//
// During a silence packets or their acks waited somewhere, perhaps in the socket of this
// process, which was stopped. That wait is no round trip: after a pause of 12 s the probe
// timeout was 30 s.
func (s *silence) trip(t instant, rtt time.Duration) time.Duration {
	if s.maxHeld > 0 && t-rtt < s.ended {
		return min(rtt, s.maxHeld)
	}
	return rtt
}

// noteSilence enters Dark or Stopped if no ack has arrived for long.
func (c *Controller) noteSilence(t instant, inFlight int) {
	switch silence := t - c.silence.lastAck; {
	case inFlight == 0 || c.state == Stopped:
	case silence > deadline:
		c.enter(Stopped, t)
	case silence > darkPTOs*c.PTO() && c.state != Dark:
		c.enter(Dark, t)
	}
}

// noteAck records an ack, and reports whether it ends an outage. If it does, the losses
// of its batch do not count.
func (c *Controller) noteAck(t instant, newest Sample) (woke bool) {
	since := t - c.silence.lastAck
	if since > darkPTOs*c.PTO() { // not only in Dark: a process that was stopped did not call Next
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

// wake continues after a silence.
//
// If the first packet to arrive had been sent before the silence, the path only stood
// still, and is the same as before. Otherwise it may be another path, and the controller
// starts again at half of its old rate.
//
// The losses before a silence do not count. A peer may exploit that by being silent on
// purpose, so the rate is no more than the earlier arrivals support.
//
// On a path that drops instead of queueing, the controller continues to share. If others
// leave little of such a path, most silences are only a few packets that were all lost.
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

// resume is called when a packet is sent while none is in flight. If none was sent for
// minimumLife, the controller starts again.
func (c *Controller) resume(t instant) {
	c.silence.lastAck = t
	if c.round.arrived(c.delivery.total) == 0 {
		c.round.began = t
	}
	if c.silence.lastSent > 0 && t-c.silence.lastSent > minimumLife {
		c.beginStart(t, c.Estimate())
	}
}
