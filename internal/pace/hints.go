package pace

import "time"

// Train says what a train has shown. In Start its rate becomes the hint, unless more than an eighth of that was measured already: play alone
// shows less. The rate of a train that jitter has spread is a hint only if it is more than an unknown path begins at: in jitter of half a round trip
// a start at less took minutes.
//
// Only the peer knows when a train arrived. One that has closed a carrier of which much was lost, and opens the next, gets no rate for what its train
// says: each time a first flight, and what the lie made of that, would leave for a path that may be slow.
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

// Blocked says that the socket's buffer is full: there is a queue on this host.
func (c *Controller) Blocked(now time.Time) { c.yield(c.tick(now)) }

// yield answers a queue at once, without waiting for acks, as the state demands.
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
