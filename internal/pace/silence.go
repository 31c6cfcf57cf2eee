package pace

import "time"

const (
	// darkPTOs is the number of PTOs without an ack that make the path dark.
	darkPTOs = 3
	// deadline is how long sending goes on without an ack; then the state is Stopped.
	deadline = 10 * time.Second
	// heldTrips is how many round trips a packet that left before the end of a silence counts for at most, as in package recovery.
	heldTrips = 4
)

// silence holds the times by which the controller notices that nothing comes back any more, and goes on afterwards.
type silence struct {
	lastAck    instant // when the last ack came; or, if later, when a packet left while none was in flight
	lastSent   instant // when the last packet left
	lightSince instant // when the packet left that ended the last outage; losses of packets that left before count for nothing

	ended    instant       // when an ack ended the last silence
	mostHeld time.Duration // what round trips of packets that left before then count for at most; 0 = there was none
}

// trip returns what a round trip that ends at t counts for. Through a silence packets or their acks have waited somewhere, perhaps in the socket of
// this process, which was stopped. That wait is no round trip: behind a pause of 12 s the probe timeout was 30 s.
func (s *silence) trip(t instant, rtt time.Duration) time.Duration {
	if s.mostHeld > 0 && t-rtt < s.ended {
		return min(rtt, s.mostHeld)
	}
	return rtt
}

// noteSilence enters Dark or Stopped when no ack has come for long.
func (c *Controller) noteSilence(t instant, inFlight int) {
	switch silence := t - c.silence.lastAck; {
	case inFlight == 0 || c.state == Stopped:
	case silence > deadline:
		c.enter(Stopped, t)
	case silence > darkPTOs*c.PTO() && c.state != Dark:
		c.enter(Dark, t)
	}
}

// noteAck notes an ack, and reports whether it ends a silence; then the losses of its batch do not count.
func (c *Controller) noteAck(t instant, newest Sample) (woke bool) {
	since := t - c.silence.lastAck
	if since > darkPTOs*c.PTO() { // also when the state is not Dark: a process that was stopped has not looked
		c.silence.ended, c.silence.mostHeld = t, heldTrips*c.delay.smoothed
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

// wake goes on after a silence. When the first packet to arrive had left before the silence, the path only stood still, and is the same as before.
// Otherwise it may be another path: the controller starts anew, at half of its old rate. The losses before a silence do not count. A peer may use
// that by being silent on purpose, so the rate is no more than the earlier arrivals bear out.
//
// A path that drops in place of queueing is shared as before: where others leave little of it, most silences are no more than a few packets that
// all were lost.
func (c *Controller) wake(t instant, newest Sample) {
	rate := min(c.Estimate(), c.borneOut())
	switch {
	case c.competition.sharing.on:
		c.enter(Compete, t)
		c.rest(t, c.competition.sharing.rest)
		c.cutWindow(t)
	case newest.sent < c.since && c.rates.value() > 0:
		c.rates.set(c.filling, rate)
		c.enter(Cruise, t)
	default:
		c.begin(t, min(rate, c.Estimate()/2))
	}
}

// resume is called when a packet leaves while none is in flight. After minimumLife without one it starts anew.
func (c *Controller) resume(t instant) {
	c.silence.lastAck = t
	if c.round.arrived(c.delivery.total) == 0 {
		c.round.began = t
	}
	if c.silence.lastSent > 0 && t-c.silence.lastSent > minimumLife {
		c.begin(t, c.Estimate())
	}
}
