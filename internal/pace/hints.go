package pace

import "time"

// TrainMeasured reports the result of a train, which is a group of packets that were sent back to
// back.
//
// In Start, the train's rate becomes the hint, unless we have already measured more than an eighth
// of it. (From play alone we measure less than the path's rate.) If jitter spread the train, its
// rate is a hint only if it exceeds the rate at which an unknown path begins, because starts at a
// lower rate, in jitter of half a round trip, would take minutes.
//
// Only the peer knows when a train arrived. If it closes a carrier that lost many packets and opens
// the next, we ignore the rate of the next one's train. Otherwise a lying peer could make us send a
// first flight of any size over a slow path with each carrier.
func (c *Controller) TrainMeasured(t Train) {
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
// host. The controller slows down at once instead of waiting for acks to show that queue.
func (c *Controller) Blocked(now time.Time) {
	t := c.tick(now)
	switch c.state {
	case Start:
		if c.rates.value() == 0 {
			return
		}
		c.start.dropHint(c.rates.value())
		c.enter(Drain, t)
	case Cruise, Up:
		c.enter(Drain, t)
	case Compete:
		if t-c.competition.cut > c.delay.smoothed {
			c.cutWindow(t)
		}
	}
}
