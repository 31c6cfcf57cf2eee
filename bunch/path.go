package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Path is what a connection may know of what carries its packets.
type Path = recovery.Path

// way is what is known of the path, and of packets that took another one.
type way struct {
	Path
	since   time.Duration // it is taken
	foreign uint64        // packets below it took another way, and tell nothing of this one
	stale   bool          // some of them may still arrive, though nobody tells of them
	until   time.Duration // when stale ones are given up
}

// SetPath tells what is known of the path. When packets take another way from now on, what is in flight may still arrive:
// nothing is sent again because of the change, and nothing is learnt of the new path from the old one's packets. While the
// carrier tells fates it paces, and says what is lost; probes for silence stay.
func (c *Conn) SetPath(now time.Time, p Path) {
	if t := c.advanceClock(now); p.Fates != c.way.Fates || p.Epoch != c.way.Epoch {
		c.move(t, p)
	}
	c.way.Path = p
	if p.Window > 0 {
		c.gate.PathWindow = p.Window
	}
}

// move leaves a path. Of one that told fates all are told.
func (c *Conn) move(t time.Duration, p Path) {
	c.seeLight()
	w := &c.way
	w.since, w.foreign = t, c.sent.Next
	w.stale = w.stale || !w.Fates && c.sent.flying > 0
	w.until = t + recovery.Overdue(max(p.RTT, c.gate.Current()), c.peerAckDelay)
	c.loss.Next, c.loss.ptos = 0, 0
	c.changed = true
}

// Fate tells what became of a packet, while the path tells fates. That it arrived frees nothing, an ack will say that it was
// kept. The bunches of a lost one leave again.
func (c *Conn) Fate(now time.Time, number uint64, arrived bool) {
	t := c.advanceClock(now)
	if !c.sent.Has(number) {
		return
	}
	switch p := c.sent.At(number); {
	case p.fate != flying:
	case arrived:
		p.arrived = t
	default:
		c.losePacket(t, number, p)
		c.changed = true
	}
}

// judges reports whether a packet's fate says something of the path that nobody else tells.
func (c *Conn) judges(number uint64) bool { return !c.way.Fates && number >= c.way.foreign }

// keptAt returns when the oldest packet in flight should have been acknowledged that is known to have arrived.
func (c *Conn) keptAt() (time.Duration, bool) {
	n, ok := c.sent.firstFlying()
	if !ok || c.sent.At(n).arrived == 0 {
		return 0, false
	}
	return c.sent.At(n).arrived + recovery.KeepTime, true
}

// giveUpForeign loses packets that took another way and have had their time.
func (c *Conn) giveUpForeign(t time.Duration) {
	c.way.stale = false
	for n, ok := c.sent.firstFlying(); ok && n < c.way.foreign; n, ok = c.sent.firstFlying() {
		c.losePacket(t, n, c.sent.At(n))
	}
}

// giveUpArrived loses packets that arrived long ago, and were not kept.
func (c *Conn) giveUpArrived(t time.Duration) {
	for at, ok := c.keptAt(); ok && t >= at; at, ok = c.keptAt() {
		n, _ := c.sent.firstFlying()
		c.losePacket(t, n, c.sent.At(n))
	}
}
