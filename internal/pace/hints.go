package pace

import "time"

// Train says how far the path has spread out a train of packets that left back to back: how many bytes arrived after the first packet,
// with IP and UDP, and the time from the first arrival to the last. It counts only while next to nothing was measured, as by play alone.
// A train that did not come evenly was spread by jitter, or gathered into clumps: the path's rate is then at least what it shows.
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

// Blocked says that the socket's buffer is full: there is a queue in this machine.
func (c *Controller) Blocked(now time.Time) { c.yield(c.tick(now)) }

// yield answers a queue at once, in the way of the present state.
func (c *Controller) yield(t instant) {
	switch c.state {
	case Start:
		if c.rates.value() == 0 {
			return
		}
		c.dropHint()
		c.enter(Drain, t)
	case Cruise, Up:
		c.enter(Drain, t)
	case Compete:
		if t-c.competition.cut > c.delay.smoothed {
			c.halve(t)
		}
	}
}
