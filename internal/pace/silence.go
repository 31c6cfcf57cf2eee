package pace

import "time"

const (
	// darkPTOs is how many PTOs must pass without an ack for the path to count as dark.
	darkPTOs = 3

	// deadline is how long we go on sending without an ack before we stop.
	deadline = 10 * time.Second

	// heldTrips limits the round trip of a packet sent before a silence ended, as a multiple of the
	// smoothed round trip. Package recovery uses the same limit.
	heldTrips = 4
)

// A silence detects that acks stopped arriving, and remembers what we need to know when they arrive
// again.
type silence struct {
	lastAck    instant // last ack or, if later, last sending of a packet with none in flight
	lastSent   instant // when the last packet was sent
	lightSince instant // send time of the packet that ended the last outage; ignore earlier losses

	// Round trips of packets that were sent before a silence ended.
	ended   instant       // when an ack ended the last silence
	maxHeld time.Duration // limit of those round trips; 0 if there was no silence
}

// trip returns rtt, which was measured at t, but limits it if it spans a silence.
//
// The packet or its ack was waiting somewhere, perhaps in the socket of this process while the
// process was stopped. Such a wait isn't part of a round trip. If it counted, the probe timeout
// after a pause of 12 s would be 30 s.
func (s *silence) trip(t instant, rtt time.Duration) time.Duration {
	if s.maxHeld > 0 && t-rtt < s.ended {
		return min(rtt, s.maxHeld)
	}
	return rtt
}

// noteSilence enters Dark or Stopped if no ack has arrived for too long.
func (c *Controller) noteSilence(t instant, inFlight int) {
	if inFlight == 0 || c.state == Stopped {
		return
	}
	silence := t - c.silence.lastAck
	if silence > deadline {
		c.enter(Stopped, t)
	} else if silence > darkPTOs*c.PTO() && c.state != Dark {
		c.enter(Dark, t)
	}
}

// noteAck records an ack, and ends an outage if there is one. It reports whether it did, in which
// case the losses in the ack's batch don't count.
func (c *Controller) noteAck(t instant, newest Sample) (woke bool) {
	since := t - c.silence.lastAck
	if since > darkPTOs*c.PTO() {
		// The state needn't be Dark now, because a process that was stopped didn't call Next to
		// enter it.
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

// wake resumes sending after a silence.
//
// If the first packet to arrive was sent before the silence, the path merely stood still, and is
// the same as before. Otherwise it may be another path, so we start again at half of our old rate.
//
// Losses from before the silence don't count. Since a peer could exploit that by falling silent on
// purpose, we limit the rate to what earlier arrivals support.
//
// On a path that drops packets instead of queueing them, we go on sharing. If others leave us only
// a little of such a path, most silences mean just that a few packets in a row were lost.
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

// resume is called when a packet is sent while none is in flight. If more than minimumLife has
// passed since the last packet, it starts again.
func (c *Controller) resume(t instant) {
	c.silence.lastAck = t
	if c.round.arrived(c.delivery.total) == 0 {
		c.round.began = t
	}
	if c.silence.lastSent > 0 && t-c.silence.lastSent > minimumLife {
		c.beginStart(t, c.Estimate())
	}
}
