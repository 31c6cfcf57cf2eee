package pace

import "time"

// Train reports the result of a train.
//
// In Start the train's rate becomes the hint, unless more than an eighth of it was
// measured already, because play alone shows less. If jitter spread the train, its rate
// is a hint only if it exceeds the rate at which an unknown path begins. In jitter of
// half a round trip, a start at a lower rate took minutes.
//
// Only the peer knows when a train arrived. If the peer closes a carrier that lost much,
// and opens the next, the train of the next carrier gives no rate. Otherwise each carrier
// would send a first flight, as large as the lie made it, over a path that may be slow.
func (c *Controller) Train(t Train) {
	c.burst.train(t)
	if t.Bytes <= 0 || t.Span < minSpan || c.state != Start || c.pathSince > 0 && c.history.wasteful() {
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
		if rate > c.assumedRate() {
			c.start.hint = rate
			c.start.careful = false
		}
		return
	}
	c.start.hint = rate
	c.start.careful = true
}

// Blocked reports that the socket's buffer is full: there is a queue on this host.
func (c *Controller) Blocked(now time.Time) { c.yield(c.tick(now)) }

// yield responds to a queue at once, without waiting for acks, as the state demands.
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
