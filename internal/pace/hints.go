package pace

import "time"

// Train tells how far a train of packets that left at once was spread out by the path: bytes that arrived after the first
// packet did, IP and UDP included, and the time from the first arrival to the last. It is taken while next to nothing was
// measured, as by play alone. One that did not come at even distances was spread by jitter, or gathered into clumps: it
// shows no rate, but the path carries no less than what came in that time, and is begun with as with QUIC's window.
func (c *Controller) Train(bytes int, span time.Duration, even bool) {
	if bytes <= 0 || span <= 0 || c.state != Start {
		return
	}
	c.even = even
	rate := float64(bytes) / span.Seconds()
	if c.rates.value() > rate/8 {
		return
	}
	if !even {
		c.hint, c.careful = max(c.hint, rate), false
		return
	}
	c.hint, c.careful = rate, true
}

// QUIC tells what QUIC sees of the same path: where to begin when nothing was measured, and when bulk must yield because
// QUIC's packets wait longer than the target or its window falls. Where our own packets wait for less than half of the
// target there is nothing to yield: QUIC's round trips hold delayed acks, random loss shrinks its window, and on a fast path
// timers blur more than the queue that cruising aims for. Beside a competitor the queue is his, and only QUIC's losses
// count.
func (c *Controller) QUIC(now time.Time, latestRTT time.Duration, cwnd int) {
	t := c.tick(now)
	fell := cwnd < c.quicCwnd
	c.quicCwnd = cwnd
	if !c.delay.rtt.known {
		c.Guess(latestRTT)
		if latestRTT > 0 && !c.careful && c.rates.value() == 0 {
			c.hint = float64(cwnd) / latestRTT.Seconds()
		}
		return
	}
	waits := latestRTT > c.delay.base()+c.delay.target() && c.state != Compete
	if c.queue > c.delay.target()/2 && (fell || waits) {
		c.yield(t)
	}
}

// Play tells how many bytes a second play uses: the estimate is the whole bottleneck's, and bulk gets what is left.
func (c *Controller) Play(rate float64) { c.play = max(rate, 0) }

// Blocked says that the socket would have blocked: a queue is in this machine.
func (c *Controller) Blocked(now time.Time) { c.yield(c.tick(now)) }

// yield drains at once.
func (c *Controller) yield(t instant) {
	switch c.state {
	case Start:
		if c.rates.value() == 0 {
			return
		}
		c.measured()
		c.enter(Drain, t)
	case Cruise, Up:
		c.enter(Drain, t)
	case Compete:
		if t-c.competition.cut > c.delay.smoothed {
			c.halve(t)
		}
	}
}
