package pace

import "time"

// Train reports the result of a train, which is a group of packets that were sent back to back.
//
// In Start, the train's rate becomes our hint, unless we have already measured more than an
// eighth of it. (With play alone, we measure less than the path has.) If jitter spread the
// train, its rate is a hint only if it exceeds the rate at which an unknown path begins. In
// jitter of half a round trip, starts at a lower rate took minutes.
//
// Only the peer knows when a train has arrived. If it closes a carrier that lost much and opens
// the next, we take no rate from the next one's train. Otherwise we would send a first flight
// with each carrier, as large as the peer's lie has made it, over a path that may be slow.
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

// Blocked is called when the socket's buffer is full, which means that there's a queue on this
// host.
func (c *Controller) Blocked(now time.Time) { c.yield(c.tick(now)) }

// yield reacts to a queue at once instead of waiting for acks. What it does depends on the state.
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
