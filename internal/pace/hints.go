package pace

import "time"

// Train tells how far a train of packets that left at once was spread out by the path: bytes that arrived after the first
// packet did, IP and UDP included, and the time from the first arrival to the last. It is taken while next to nothing was
// measured, as by play alone. One that did not come at even distances was spread by jitter, or gathered into clumps: it
// shows no rate, but the path carries no less than what came in that time.
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
