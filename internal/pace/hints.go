package pace

import "time"

// Train reports what a train has shown. In Start its rate becomes the hint, unless more
// than an eighth of that was measured already, because play alone shows less. If jitter
// has spread the train, its rate is a hint only if it is more than that at which an
// unknown path begins: in jitter of half a round trip a start at less took minutes.
//
// Only the peer knows when a train arrived. So if the peer has closed a carrier on which much
// was lost, and opens the next, the train of that one gives no rate: otherwise each carrier
// would have a first flight, and what the lie made of it, sent over a path that may be slow.
func (c *Controller) Train(t Train) {
	c.burst.train(t)
	if t.Bytes <= 0 || t.Span < leastSpan || c.state != Start || c.pathSince > 0 && c.history.wasteful() {
		return
	}
	c.start.even = t.Even
	rate := float64(t.Bytes) / t.Span.Seconds()
	if c.rates.value() > rate/8 {
		return
	}
	c.start.crowd = t.crowd(c.delay.guess)
	if !t.Even {
		c.start.spread = t.Span
		if rate > c.supposed() {
			c.start.hint, c.start.careful = rate, false
		}
		return
	}
	c.start.hint, c.start.careful = rate, true
}

// Blocked reports that the socket's buffer is full: there is a queue on this host.
func (c *Controller) Blocked(now time.Time) { c.yield(c.tick(now)) }

// yield answers a queue at once, without waiting for acks, in the way of the state.
func (c *Controller) yield(t instant) {
	switch c.state {
	case Start:
		if c.rates.value() == 0 {
			return
		}
		c.dropHint()
		c.enter(Drain, t)
	case Cruise, Up, Yield:
		c.enter(Drain, t)
	case Compete:
		if t-c.competition.cut > c.delay.smoothed {
			c.cutWindow(t)
		}
	}
}
