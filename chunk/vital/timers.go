package vital

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Advance runs the timers that are due. Afterwards, either there is a packet to send or
// NextTimeout is after now. The error says why the connection has ended.
func (c *Conn) Advance(now time.Time) error {
	c.advanceClock(now)
	if c.err != nil {
		return c.err
	}
	if c.hasGap() && !c.now.Before(c.repeatAt) {
		c.needResend = true // our last request had no effect
	}
	oldest := c.oldest()
	switch {
	case oldest != nil && c.expired(c.waitingSince(oldest), c.cfg.Timeout):
		c.err = ErrNotAcked
	case c.expired(c.lastReceived, c.cfg.Timeout):
		c.err = ErrTimeout
	case c.peerNeedsResend && !c.now.Before(c.answerAt):
		c.answer()
	case c.hasUnacked() && c.resendNext == c.resendEnd && c.expired(oldest.last, c.resendAfter()):
		c.resendOldest()
	}
	return c.err
}

// hasUnacked reports whether a vital chunk was sent and is not acknowledged.
func (c *Conn) hasUnacked() bool { return c.store.Oldest < c.sendNext }

// oldest returns the oldest unacknowledged vital chunk, or nil if there is none or it hasn't been
// sent yet. A chunk that was too large for its packet counts as sent.
func (c *Conn) oldest() *unackedChunk {
	if c.store.Len() == 0 || c.store.At(c.store.Oldest).first.IsZero() {
		return nil
	}
	return c.store.At(c.store.Oldest)
}

// waitingSince returns since when we have been waiting for an acknowledgement.
func (c *Conn) waitingSince(oldest *unackedChunk) time.Time {
	if c.lastAcked.After(oldest.first) {
		return c.lastAcked
	}
	return oldest.first
}

// answer answers the peer's request, by resending every chunk that was sent and not acknowledged.
func (c *Conn) answer() {
	c.peerNeedsResend = false
	c.answerAt = c.now.Add(c.requestInterval())
	c.resendNext, c.resendEnd = c.store.Oldest, c.sendNext
	c.stats.Answers++
}

// resendOldest schedules the chunks that have waited too long, but no more of them than fit into
// one packet. The game resends only the first.
func (c *Conn) resendOldest() {
	c.resendNext, c.resendEnd = c.store.Oldest, c.store.Oldest+1
	bytes := c.store.At(c.resendNext).size + maxHeaderBytes
	for ; c.resendEnd < c.sendNext && c.resendEnd-c.resendNext < maxChunks; c.resendEnd++ {
		v := c.store.At(c.resendEnd)
		full := bytes+v.size+c.cfg.reserve() > c.cfg.payload(c.cfg.MaxPacket)
		if full || !c.expired(v.last, c.resendAfter()) {
			return
		}
		bytes += v.size + maxHeaderBytes
	}
}

// NextTimeout returns when Advance or AppendPacket will have something to do, which may be now. ok
// is false if the connection has ended.
func (c *Conn) NextTimeout() (at time.Time, ok bool) {
	if c.err != nil {
		return time.Time{}, false
	}
	if c.closing != nil || c.due > 0 || c.resendNext < c.resendEnd {
		return c.now, true
	}
	var first recovery.Earliest
	first.Add(c.lastReceived.Add(c.cfg.Timeout+1), true)
	first.Add(c.lastSent.Add(c.cfg.KeepAlive+1), true)
	if oldest := c.oldest(); oldest != nil {
		first.Add(c.waitingSince(oldest).Add(c.cfg.Timeout+1), true)
	}
	if c.hasUnacked() {
		first.Add(c.store.At(c.store.Oldest).last.Add(c.resendAfter()+1), true)
	}
	first.Add(c.lastSent.Add(c.cfg.FlushAfter+1), c.queue.Len() > 0)
	first.Add(c.answerAt, c.peerNeedsResend)
	first.Add(c.requestAt, c.needResend)
	first.Add(c.repeatAt, !c.needResend && c.hasGap())
	first.Add(c.ackAt, !c.ackAt.IsZero())
	at, ok = first.Time()
	if at.Before(c.now) {
		at = c.now
	}
	return at, ok
}
