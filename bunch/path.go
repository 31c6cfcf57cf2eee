package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Path describes the path to the peer, as the carrier knows it.
type Path = recovery.Path

// pathState holds the carrier's last Path, and tells apart the packets that took another path.
type pathState struct {
	Path
	since   time.Duration // when packets began to take the path
	foreign uint64        // packets with lower numbers took another path; their fates say nothing about this one
	stale   bool          // foreign packets are in flight whose fates no carrier will tell
	until   time.Duration // with stale: when the foreign packets count as lost
	arrived time.Duration // when the carrier last said that a packet of this path had arrived
}

// lossy reports whether the path loses playLoss of its packets or more, by the carrier if it tells fates, else by own, the share that this side has
// seen.
func (p *pathState) lossy(own float64) bool {
	if p.Fates {
		return p.Loss >= playLoss
	}
	return own >= playLoss
}

// judges reports whether an ack or loss of a packet tells of the path: the packet took the present one, and no carrier tells fates.
func (p *pathState) judges(number uint64) bool { return !p.Fates && number >= p.foreign }

// SetPath tells the connection about the path. When that is another one (Epoch or Fates differ), packets in flight may still arrive: none is sent
// again because of the change, and their fates say nothing about the new path. While the carrier tells fates, it paces and finds lost packets;
// this side still probes when nothing is acknowledged.
func (c *Conn) SetPath(now time.Time, p Path) {
	if t := c.advanceClock(now); p.Fates != c.path.Fates || p.Epoch != c.path.Epoch {
		c.move(t, p)
	}
	c.changed = c.changed || c.path.More && !p.More // repair bunches may leave
	c.path.Path = p
	if p.Window > 0 {
		c.gate.PathWindow = p.Window
	}
}

// move leaves a path. If its carrier told fates, it still tells those of the packets in flight; else they count as lost at path.until.
func (c *Conn) move(t time.Duration, p Path) {
	c.leaveDark()
	path := &c.path
	path.since, path.foreign = t, c.sent.Next
	path.stale = path.stale || !path.Fates && c.sent.flying > 0
	path.until = t + recovery.Overdue(max(p.RTT, c.gate.Current()), c.peerAckDelay)
	c.loss.Next, c.loss.ptos = 0, 0
	c.changed = true
}

// Fate tells whether a packet has arrived; a carrier that tells fates calls it. The bunches of a lost packet leave again. Those of one that has
// arrived stay until an ack says that the peer has kept it.
func (c *Conn) Fate(now time.Time, number uint64, arrived bool) {
	t := c.advanceClock(now)
	c.repairs.loss.Note()
	if !c.sent.Has(number) {
		return
	}
	switch p := c.sent.At(number); {
	case p.fate != flying:
	case arrived:
		if p.arrived = t; number >= c.path.foreign {
			c.leaveDark()
			c.path.arrived = t
		}
	default:
		c.losePacket(t, number, p)
		c.changed = true
	}
}

// giveUpArrivedAt returns when the oldest packet in flight is given up, if the carrier has said that it arrived: had the peer kept it, its ack would
// have come by then.
func (c *Conn) giveUpArrivedAt() (time.Duration, bool) {
	n, ok := c.sent.firstFlying()
	if !ok || c.sent.At(n).arrived == 0 {
		return 0, false
	}
	return c.sent.At(n).arrived + recovery.KeepTime, true
}

// giveUpForeign declares the packets lost that took another path and have not been acknowledged by now.
func (c *Conn) giveUpForeign(t time.Duration) {
	c.path.stale = false
	for n, ok := c.sent.firstFlying(); ok && n < c.path.foreign; n, ok = c.sent.firstFlying() {
		c.losePacket(t, n, c.sent.At(n))
	}
}

// giveUpArrived declares the packets lost that arrived long ago and were not acknowledged: the peer did not keep them.
func (c *Conn) giveUpArrived(t time.Duration) {
	for at, ok := c.giveUpArrivedAt(); ok && t >= at; at, ok = c.giveUpArrivedAt() {
		n, _ := c.sent.firstFlying()
		c.losePacket(t, n, c.sent.At(n))
	}
}
