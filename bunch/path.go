package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Path describes the path to the peer, as the carrier knows it.
type Path = recovery.Path

// pathState holds the carrier's last Path, and distinguishes packets that were sent on an earlier one.
type pathState struct {
	Path
	since   time.Duration // when the path became the current one
	foreign uint64        // packets with lower numbers were sent on another path; their fates say nothing about this one
	stale   bool          // foreign packets are in flight whose fates no carrier will report
	until   time.Duration // if stale: when the foreign packets are declared lost
	arrived time.Duration // when the carrier last reported that a packet on this path had arrived
}

// lossy reports whether the path loses at least playLoss of its packets: according to the carrier if it reports fates, or else to
// own, the share that this side has measured.
func (p *pathState) lossy(own float64) bool {
	if p.Fates {
		return p.Loss >= playLoss
	}
	return own >= playLoss
}

// judges reports whether an ack or loss of a packet says something about the path: the packet was sent on the current path, and the
// carrier does not report fates.
func (p *pathState) judges(number uint64) bool { return !p.Fates && number >= p.foreign }

// SetPath is called when the path may have changed. If it is a different path (Epoch or Fates differ), packets in flight may still
// arrive: none is sent again because of the change, and their fates say nothing about the new path. While the carrier reports
// fates, it does the pacing and detects losses; this side still probes if nothing is acknowledged.
func (c *Conn) SetPath(now time.Time, p Path) {
	if t := c.advanceClock(now); p.Fates != c.path.Fates || p.Epoch != c.path.Epoch {
		c.move(t, p)
	}
	c.changed = c.changed || c.path.More && !p.More // repair bunches may now be sent
	c.path.Path = p
	if p.Window > 0 {
		c.gate.PathWindow = p.Window
	}
}

// move is called when the path becomes p. A carrier that reports fates will still report those of the packets in flight; otherwise
// these are declared lost at path.until.
func (c *Conn) move(t time.Duration, p Path) {
	c.leaveDark()
	path := &c.path
	path.since, path.foreign = t, c.sent.Next
	path.stale = path.stale || !path.Fates && c.sent.flying > 0
	path.until = t + recovery.Overdue(max(p.RTT, c.gate.Current()), c.peerAckDelay)
	c.loss.Next, c.loss.ptos = 0, 0
	c.changed = true
}

// Fate is called by a carrier that reports fates, with the fate of a packet. The bunches of a lost packet are sent again. Those of
// an arrived packet stay until an ack says that the peer has kept it.
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

// giveUpArrivedAt returns when the oldest packet in flight is declared lost, if the carrier has reported its arrival: if the peer
// had kept it, its ack would have arrived by then.
func (c *Conn) giveUpArrivedAt() (time.Duration, bool) {
	n, ok := c.sent.firstFlying()
	if !ok || c.sent.At(n).arrived == 0 {
		return 0, false
	}
	return c.sent.At(n).arrived + recovery.KeepTime, true
}

// giveUpForeign declares packets lost that were sent on another path and have not been acknowledged by now.
func (c *Conn) giveUpForeign(t time.Duration) {
	c.path.stale = false
	for n, ok := c.sent.firstFlying(); ok && n < c.path.foreign; n, ok = c.sent.firstFlying() {
		c.losePacket(t, n, c.sent.At(n))
	}
}

// giveUpArrived declares packets lost that arrived long ago and were not acknowledged: the peer did not keep them.
func (c *Conn) giveUpArrived(t time.Duration) {
	for at, ok := c.giveUpArrivedAt(); ok && t >= at; at, ok = c.giveUpArrivedAt() {
		n, _ := c.sent.firstFlying()
		c.losePacket(t, n, c.sent.At(n))
	}
}
