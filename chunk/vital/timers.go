package vital

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Advance runs the timers. The error says why the connection has ended. After
// Advance, NextTimeout is after now or a packet is ready.
func (c *Conn) Advance(now time.Time) error {
	c.tick(now)
	if c.err != nil {
		return c.err
	}
	if c.missing() && !c.now.Before(c.againAt) {
		c.ask = true
	}
	switch oldest := c.oldest(); {
	case oldest != nil && c.passed(c.waiting(oldest), c.cfg.Timeout):
		c.err = ErrNotAcked
	case c.passed(c.heard, c.cfg.Timeout):
		c.err = ErrTimeout
	case c.asked && !c.now.Before(c.answerAt):
		c.answer()
	case c.unheard() && c.again == c.until && c.passed(oldest.last, c.resendAfter()):
		c.resendOldest()
	}
	return c.err
}

// unheard reports whether a vital chunk was sent and is not acknowledged.
func (c *Conn) unheard() bool { return c.store.Oldest < c.fresh }

// oldest returns the oldest vital chunk if it was sent, or was too large for a packet; else nil.
func (c *Conn) oldest() *record {
	if c.store.Len() == 0 || c.store.At(c.store.Oldest).first.IsZero() {
		return nil
	}
	return c.store.At(c.store.Oldest)
}

// waiting returns since when nothing that was sent was acknowledged.
func (c *Conn) waiting(oldest *record) time.Time {
	if c.moved.After(oldest.first) {
		return c.moved
	}
	return oldest.first
}

// answer queues all unacknowledged chunks that were sent, to be sent again.
func (c *Conn) answer() {
	c.asked, c.answerAt = false, c.now.Add(c.interval())
	c.again, c.until = c.store.Oldest, c.fresh
	c.stats.Answers++
}

// resendOldest queues chunks again that have waited too long, at most one
// packet of them; the game sends only the first such chunk.
func (c *Conn) resendOldest() {
	c.again, c.until = c.store.Oldest, c.store.Oldest+1
	bytes := c.store.At(c.again).size + maxHeaderBytes
	for ; c.until < c.fresh && c.until-c.again < maxChunks; c.until++ {
		r := c.store.At(c.until)
		if bytes+r.size+c.cfg.reserve() > c.cfg.payload(c.cfg.MaxPacket) || !c.passed(r.last, c.resendAfter()) {
			return
		}
		bytes += r.size + maxHeaderBytes
	}
}

// NextTimeout returns when Advance or AppendPacket has something to do, which
// may be now. ok is false if the connection has ended.
func (c *Conn) NextTimeout() (at time.Time, ok bool) {
	if c.err != nil {
		return time.Time{}, false
	}
	if c.closing != nil || c.due > 0 || c.again < c.until {
		return c.now, true
	}
	var first recovery.Earliest
	first.Add(c.heard.Add(c.cfg.Timeout+1), true)
	first.Add(c.spoke.Add(c.cfg.KeepAlive+1), true)
	if oldest := c.oldest(); oldest != nil {
		first.Add(c.waiting(oldest).Add(c.cfg.Timeout+1), true)
	}
	if c.unheard() {
		first.Add(c.store.At(c.store.Oldest).last.Add(c.resendAfter()+1), true)
	}
	first.Add(c.spoke.Add(c.cfg.FlushAfter+1), c.queue.Len() > 0)
	first.Add(c.answerAt, c.asked)
	first.Add(c.askAt, c.ask)
	first.Add(c.againAt, !c.ask && c.missing())
	first.Add(c.ackAt, !c.ackAt.IsZero())
	at, ok = first.Time()
	if at.Before(c.now) {
		at = c.now
	}
	return at, ok
}
