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
	oldest := c.store.oldest()
	switch {
	case oldest != nil && c.expired(c.waitingSince(oldest), c.cfg.Timeout):
		c.err = ErrNotAcked
	case c.expired(c.lastReceived, c.cfg.Timeout):
		c.err = ErrTimeout
	case c.peerNeedsResend && !c.now.Before(c.answerAt):
		c.answer()
	case c.store.hasUnacked() && !c.store.mustResend() && c.expired(oldest.last, c.resendAfter()):
		c.resendOldest()
	}
	return c.err
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
	c.store.resendAll()
	c.stats.Answers++
}

// resendOldest schedules the chunks that have waited too long, but no more of them than fit into
// one packet. The game resends only the first.
func (c *Conn) resendOldest() {
	s := &c.store
	s.resendNext, s.resendEnd = s.chunks.Oldest, s.chunks.Oldest+1
	bytes := s.chunks.At(s.resendNext).size + maxHeaderBytes
	for ; s.resendEnd < s.sendNext && s.resendEnd-s.resendNext < maxChunks; s.resendEnd++ {
		v := s.chunks.At(s.resendEnd)
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
	if c.closing != nil || c.queue.due > 0 || c.store.mustResend() {
		return c.now, true
	}
	var first recovery.Earliest
	first.Add(c.lastReceived.Add(c.cfg.Timeout+1), true)
	first.Add(c.lastSent.Add(c.cfg.KeepAlive+1), true)
	if oldest := c.store.oldest(); oldest != nil {
		first.Add(c.waitingSince(oldest).Add(c.cfg.Timeout+1), true)
	}
	if c.store.hasUnacked() {
		first.Add(c.store.chunks.At(c.store.chunks.Oldest).last.Add(c.resendAfter()+1), true)
	}
	first.Add(c.lastSent.Add(c.cfg.FlushAfter+1), c.queue.chunks.Len() > 0)
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
