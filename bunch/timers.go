package bunch

import "time"

// trimAfter is how long spare memory that nobody needs is kept, and some of it up to twice as long: the next burst of play finds its memory
// again, and what a transfer needed is soon given up.
const trimAfter = 10 * time.Second

// trimBulkAfter is how long it is kept where it is more than play needs: 4.5 MB for each connection that bulk has just left.
const trimBulkAfter = time.Second

// Advance runs the timers that are due. An error ends the connection: the peer has been silent for too long.
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

	// A peer that is gone, or does not answer closes.
	if at, ok := c.idleAt(); ok && t >= at {
		return c.fail(violation(ConnectionTimeout, "no answer for %v (IdleTimeout)", c.config.IdleTimeout))
	}
	if at, ok := c.owed.until(c.config.IdleTimeout); ok && t >= at {
		return c.fail(violation(ConnectionTimeout, "no answer to the closes of %d channels, at most %d may wait for longer than %v (IdleTimeout)", c.owed.count, maxOwed, c.config.IdleTimeout))
	}

	if at, _ := c.trimAt(); t >= at {
		c.trim()
	}
	c.sent.forget(t)
	return nil
}

// NextTimeout returns when Advance must be called next, or AppendPacket tried again; ok is false while nothing is due.
func (c *Conn) NextTimeout() (time.Time, bool) {
	if c.err != nil {
		return time.Time{}, false
	}
	next, due := time.Duration(0), false // the earliest of all, if there is one
	consider := func(at time.Duration, ok bool) {
		if ok && (!due || at < next) {
			next, due = at, true
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
	return c.start.Add(next), due
}

// limitProbeAt returns when a sender that waits for a higher limit asks for it.
func (c *Conn) limitProbeAt() (time.Duration, bool) {
	if !c.flow.blocked || c.sent.flying > 0 || c.flow.probe {
		return 0, false
	}
	return max(c.sent.lastAsk, c.flow.blockedAt) + c.gate.Backoff(c.flow.probes, c.peerAckDelay), true
}

// idleAt returns when the connection ends because the peer has acknowledged nothing.
func (c *Conn) idleAt() (time.Duration, bool) {
	return c.loss.unanswered + c.config.IdleTimeout, c.sent.flying > 0
}

// trimAt returns when trim is called next, while there is spare memory.
func (c *Conn) trimAt() (at time.Duration, spare bool) {
	spare = c.blocks.spare() || c.payloads.spare() || len(c.rings.items)+len(c.ready.spare.items) > 0 || c.repairs.spare() || c.restorer.spare() ||
		c.assemblies.spare != nil
	if len(c.blocks.full.items) > maxSmall {
		return c.trimmed + trimBulkAfter, true
	}
	return c.trimmed + trimAfter, spare
}

// trim gives up the memory that nobody needed since the last trim, so that a connection which sent much is soon small again, even
// while play goes on.
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
	c.sent.Shrink(leastSent)
}
