package bunch

import "time"

const (
	// trimAfter is how long a connection keeps memory that it does not use. Some of it is
	// kept up to twice as long. The time is long enough that the next burst of play need
	// not allocate, and short enough that a transfer's memory is freed soon.
	trimAfter = 10 * time.Second
	// trimBulkAfter replaces trimAfter while there is more spare memory than play needs.
	// Right after a transfer that is up to 4.5 MB per connection.
	trimBulkAfter = time.Second
)

// Advance runs the timers that are due at now. If the peer was silent for longer than
// Config.IdleTimeout, the connection ends and Advance returns an error.
func (c *Conn) Advance(now time.Time) error {
	t := c.advanceClock(now)
	if c.err != nil {
		return c.err
	}

	// Losses and probes.
	if c.loss.Next != 0 && t >= c.loss.Next {
		c.detectLosses(t)
	}
	if c.path.stale && t >= c.path.until {
		c.giveUpForeign(t)
	}
	c.giveUpArrived(t)
	if at, ok := c.ptoAt(); ok && t >= at {
		c.probe()
	}
	if at, ok := c.limitProbeAt(); ok && t >= at {
		c.flow.probe = true
		c.flow.probes++
	}

	at, silent := c.sent.keepAliveAt(c.config.KeepAlive)
	c.silent = silent && t >= at

	if err := c.timedOut(t); err != nil {
		return c.fail(err)
	}
	if at, _ := c.trimAt(); t >= at {
		c.trim()
	}
	c.sent.forget(t)
	return nil
}

// timedOut returns an error if the peer has acknowledged nothing for IdleTimeout, or has
// owed too many answers to closes of channels for that long.
func (c *Conn) timedOut(t time.Duration) *Error {
	if at, ok := c.idleAt(); ok && t >= at {
		return violation(ConnectionTimeout, "no answer for %v (IdleTimeout)", c.config.IdleTimeout)
	}
	if at, ok := c.owed.until(c.config.IdleTimeout); ok && t >= at {
		return violation(ConnectionTimeout, "no answer to the closes of %d channels, at most %d may wait for longer than %v (IdleTimeout)",
			c.owed.count, maxOwed, c.config.IdleTimeout)
	}
	return nil
}

// NextTimeout returns the time of the next call of Advance, which AppendPacket must follow,
// unless another event happens before. ok is false if no timer is set.
func (c *Conn) NextTimeout() (at time.Time, ok bool) {
	if c.err != nil {
		return time.Time{}, false
	}
	var next time.Duration // the earliest timer, if ok
	consider := func(timer time.Duration, set bool) {
		if set && (!ok || timer < next) {
			next = timer
			ok = true
		}
	}
	consider(c.received.deadline, c.received.asking > 0)
	consider(c.corkEnds(), c.flow.update && !c.cork.open())
	consider(c.loss.Next, c.loss.Next != 0)
	consider(c.path.until, c.path.stale)
	consider(c.giveUpArrivedAt())
	consider(c.ptoAt())
	consider(c.limitProbeAt())
	consider(c.sent.keepAliveAt(c.config.KeepAlive))
	consider(c.idleAt())
	consider(c.owed.until(c.config.IdleTimeout))
	consider(c.trimAt())
	return c.start.Add(next), ok
}

// limitProbeAt returns the time at which a sender blocked by the peer's limit asks for a
// higher one.
func (c *Conn) limitProbeAt() (time.Duration, bool) {
	if !c.flow.blocked || c.sent.flying > 0 || c.flow.probe {
		return 0, false
	}
	return max(c.sent.lastAsk, c.flow.blockedAt) + c.gate.Backoff(c.flow.probes, c.peerAckDelay), true
}

// idleAt returns the time at which the connection ends because the peer has acknowledged
// nothing. ok is false if no ack is outstanding.
func (c *Conn) idleAt() (at time.Duration, ok bool) {
	return c.loss.unanswered + c.config.IdleTimeout, c.sent.flying > 0
}

// trimAt returns the time of the next trim. spare is false if there is no memory that it
// could free.
func (c *Conn) trimAt() (at time.Duration, spare bool) {
	spare = c.blocks.spare() || c.payloads.spare() || c.repairs.spare() || c.restorer.spare() ||
		len(c.rings.items) > 0 || len(c.ready.spare.items) > 0 || c.assemblies.spare != nil
	if len(c.blocks.full.items) > maxSmall {
		return c.trimmed + trimBulkAfter, true
	}
	return c.trimmed + trimAfter, spare
}

// trim frees memory that was not used since the last trim. A connection therefore shrinks
// soon after a transfer, even while play continues.
func (c *Conn) trim() {
	c.trimmed = c.now
	c.blocks.trim()
	c.payloads.trim()
	c.rings.trim()
	c.ready.spare.trim()
	c.tracked.release()
	c.repairs.trim()
	c.restorer.trim()
	c.assemblies.spare = nil
	c.sent.forget(c.now)
	c.sent.Shrink(initialSent)
}
