package bunch

import (
	"math"
	"time"
)

const (
	// trimAfter is the interval at which unused memory is freed. Memory is freed if it wasn't
	// needed for a whole interval, so it may be kept for up to two. The interval is long enough
	// for the next burst of play (the game's own traffic) to reuse the memory, and short enough
	// for the memory of a transfer to be freed soon.
	trimAfter = 10 * time.Second

	// trimBulkAfter replaces trimAfter while there's more spare memory than play needs, because
	// a connection may have 4.5 MB of spare memory right after a transfer.
	trimBulkAfter = time.Second

	// never is the time of a timer that isn't set.
	never = time.Duration(math.MaxInt64)
)

// Advance runs the timers that have expired by now. It returns an error if the connection has
// ended, for example because the peer acknowledged nothing for Config.IdleTimeout.
//
// A new timer must be added to NextTimeout as well. The timers aren't in a table that both could
// walk, because NextTimeout would then take half as long again, and it's called for each packet.
func (c *Conn) Advance(now time.Time) error {
	t := c.advanceClock(now)
	if c.err != nil {
		return c.err
	}

	// Detect losses first, because probes and the idle timeout are only about packets that are
	// still in flight.
	if t >= c.loss.nextAt() {
		c.detectLosses(t)
	}
	if t >= c.path.foreignOverdueAt() {
		c.loseForeign(t)
	}
	if t >= c.sent.unkeptAt() {
		c.loseUnkept(t)
	}

	// Decide what the next packet must do.
	if t >= c.ptoAt() {
		c.probe()
	}
	if t >= c.limitProbeAt() {
		c.flow.ask()
	}
	c.keepAliveDue = t >= c.sent.keepAliveAt(c.config.KeepAlive)

	if err := c.timedOut(t); err != nil {
		return c.fail(err)
	}

	// The records of packets are dropped before trim frees their memory.
	c.sent.dropExpired(t)
	if t >= c.trimAt() {
		c.trim()
	}
	return nil
}

// NextTimeout returns when to call Advance and then AppendPacket, unless another event comes
// first. ok is false if no timer is set.
func (c *Conn) NextTimeout() (at time.Time, ok bool) {
	if c.err != nil {
		return time.Time{}, false
	}
	next := min(
		// The timers of Advance.
		c.loss.nextAt(),
		c.path.foreignOverdueAt(),
		c.sent.unkeptAt(),
		c.ptoAt(),
		c.limitProbeAt(),
		c.sent.keepAliveAt(c.config.KeepAlive),
		c.idleAt(),
		c.unanswered.timeoutAt(c.config.IdleTimeout),

		// These need no action in Advance, since AppendPacket checks them.
		c.received.ackAt(),
		c.corkedLimitAt(),
		c.resendAt(),
	)
	if c.hasSpare() {
		next = min(next, c.trimAt())
	}
	if next == never {
		return time.Time{}, false
	}
	return c.start.Add(next), true
}

// timedOut returns an error if the peer has acknowledged nothing for IdleTimeout, or has left
// too many channel closes unanswered for that long.
func (c *Conn) timedOut(t time.Duration) *Error {
	timeout := c.config.IdleTimeout
	if t >= c.idleAt() {
		return violation(ConnectionTimeout, "no answer for %v (IdleTimeout)", timeout)
	}
	if t >= c.unanswered.timeoutAt(timeout) {
		return violation(ConnectionTimeout, "%d channel closes unanswered for %v (IdleTimeout); the limit is %d",
			c.unanswered.count, timeout, maxUnanswered)
	}
	return nil
}

// limitProbeAt returns when to ask the peer for a higher limit because something is blocked. The
// timer isn't set while packets are in flight, since their acks may raise the limit, or if the next
// packet asks anyway.
func (c *Conn) limitProbeAt() time.Duration {
	if !c.flow.blocked || c.sent.packetsInFlight > 0 || c.flow.askDue {
		return never
	}
	since := max(c.sent.lastAckEliciting, c.flow.blockedAt)
	return since + c.congestion.Backoff(c.flow.askCount, c.peerAckDelay)
}

// idleAt returns when the connection ends because the peer acknowledges nothing. The timer is only
// set while packets are in flight.
func (c *Conn) idleAt() time.Duration {
	if c.sent.packetsInFlight == 0 {
		return never
	}
	return c.loss.silentSince + c.config.IdleTimeout
}

// trimAt returns when trim runs next.
func (c *Conn) trimAt() time.Duration {
	if c.blocks.hasSpareOfBulk() {
		return c.trimmedAt + trimBulkAfter
	}
	return c.trimmedAt + trimAfter
}

// hasSpare reports whether there's memory for trim to free, now or later. It and trim must cover
// the same parts.
func (c *Conn) hasSpare() bool {
	return c.blocks.hasSpare() || c.payloads.hasSpare() || c.rings.hasSpare() || c.ready.spare.hasSpare() ||
		c.tracked.hasSpare() || c.repairs.hasSpare() || c.restorer.hasSpare() || c.assemblies.spare != nil ||
		c.sent.hasSpare()
}

// trim frees memory that hasn't been used since the last call. As a result, a connection's memory
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
	c.sent.Shrink(initialSent)
}
