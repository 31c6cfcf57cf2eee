package bunch

import "time"

const (
	// trimAfter is the time after which unused memory is freed. Some of it is kept for up to
	// twice as long. This is long enough for the next burst of play to reuse the memory, but
	// short enough that memory from a transfer is soon released.
	trimAfter = 10 * time.Second

	// trimBulkAfter replaces trimAfter while there's more spare memory than play needs. Right
	// after a transfer, a connection may hold 4.5 MB of spare memory.
	trimBulkAfter = time.Second
)

// Advance runs the timers that have expired by now. It returns an error if the connection has
// ended, for example because the peer was silent for longer than Config.IdleTimeout.
func (c *Conn) Advance(now time.Time) error {
	t := c.advanceClock(now)
	if c.err != nil {
		return c.err
	}

	if c.loss.Next != 0 && t >= c.loss.Next {
		c.detectLosses(t)
	}
	if c.path.stale && t >= c.path.giveUpAt {
		c.giveUpForeign(t)
	}
	c.giveUpArrived(t)
	if at, ok := c.ptoAt(); ok && t >= at {
		c.probe()
	}
	if at, ok := c.limitProbeAt(); ok && t >= at {
		c.flow.mustAsk = true
		c.flow.asks++
	}

	at, silent := c.sent.keepAliveAt(c.config.KeepAlive)
	c.keepAliveDue = silent && t >= at

	if err := c.timedOut(t); err != nil {
		return c.fail(err)
	}
	if at, _ := c.trimAt(); t >= at {
		c.trim()
	}
	c.sent.dropExpired(t)
	return nil
}

// timedOut returns an error if the peer has acknowledged nothing for IdleTimeout, or has left
// too many channel closes unanswered for that long.
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

// NextTimeout returns when Advance must be called next, followed by AppendPacket, unless
// another event comes first. ok is false if no timer is set.
func (c *Conn) NextTimeout() (at time.Time, ok bool) {
	if c.err != nil {
		return time.Time{}, false
	}
	var next time.Duration // the earliest timer, if ok
	consider := func(timer time.Duration, isSet bool) {
		if isSet && (!ok || timer < next) {
			next = timer
			ok = true
		}
	}
	consider(c.received.deadline, c.received.asking > 0)
	consider(c.corkEnds(), c.flow.update && !c.cork.open())
	consider(c.loss.Next, c.loss.Next != 0)
	consider(c.path.giveUpAt, c.path.stale)
	consider(c.giveUpArrivedAt())
	consider(c.ptoAt())
	consider(c.resendAt())
	consider(c.limitProbeAt())
	consider(c.sent.keepAliveAt(c.config.KeepAlive))
	consider(c.idleAt())
	consider(c.owed.until(c.config.IdleTimeout))
	consider(c.trimAt())
	return c.start.Add(next), ok
}

// limitProbeAt returns when to ask the peer for a higher limit because something is blocked. ok
// is false if nothing is blocked, if packets are in flight, or if we are already about to ask.
func (c *Conn) limitProbeAt() (at time.Duration, ok bool) {
	if !c.flow.blocked || c.sent.flying > 0 || c.flow.mustAsk {
		return 0, false
	}
	return max(c.sent.lastAsk, c.flow.blockedAt) + c.congestion.Backoff(c.flow.asks, c.peerAckDelay), true
}

// idleAt returns when the connection ends because the peer acknowledges nothing. ok is false
// if no ack is outstanding.
func (c *Conn) idleAt() (at time.Duration, ok bool) {
	return c.loss.silentSince + c.config.IdleTimeout, c.sent.flying > 0
}

// trimAt returns when trim runs next. spare is false if there's nothing to free.
func (c *Conn) trimAt() (at time.Duration, spare bool) {
	spare = c.blocks.hasSpare() || c.payloads.hasSpare() || c.repairs.hasSpare() || c.restorer.hasSpare() ||
		len(c.rings.items) > 0 || len(c.ready.spare.items) > 0 || c.assemblies.spare != nil
	if len(c.blocks.full.items) > maxSmall {
		return c.trimmedAt + trimBulkAfter, true
	}
	return c.trimmedAt + trimAfter, spare
}

// trim frees memory that hasn't been used since the last call. As a result, a connection
// shrinks soon after a transfer, even while play goes on.
func (c *Conn) trim() {
	c.trimmedAt = c.now
	c.blocks.trim()
	c.payloads.trim()
	c.rings.trim()
	c.ready.spare.trim()
	c.tracked.release()
	c.repairs.trim()
	c.restorer.trim()
	c.assemblies.spare = nil
	c.sent.dropExpired(c.now)
	c.sent.Shrink(initialSent)
}
