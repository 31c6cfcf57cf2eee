package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Path describes the path to the peer, as the carrier knows it.
type Path = recovery.Path

// pathState holds the Path that the carrier reported last, and separates packets sent on it
// from those sent on earlier paths.
//
// A packet is foreign if it was sent on an earlier path. Foreign packets may still be
// acknowledged. If stale is set, they are declared lost at the time until. Otherwise the
// carrier reports their fates.
type pathState struct {
	Path
	since   time.Duration // when the path became the current one
	foreign uint64        // packets below this number are foreign: their fates say nothing about this path
	stale   bool          // some foreign packets in flight will never have their fates reported
	until   time.Duration // if stale: when the foreign packets are declared lost
	arrived time.Duration // when the carrier last reported the arrival of a packet on this path
}

// lossy reports whether the path loses at least playLoss of its packets. If the carrier
// reports fates, its loss rate counts. Otherwise own counts, the loss that this side has
// measured.
func (p *pathState) lossy(own float64) bool {
	if p.Fates {
		return p.Loss >= playLoss
	}
	return own >= playLoss
}

// judges reports whether the ack or loss of a packet counts as evidence about the path. It
// does if the packet was sent on the current path and the carrier doesn't report fates.
func (p *pathState) judges(number uint64) bool { return !p.Fates && number >= p.foreign }

// SetPath is called when the path may have changed. A different Epoch or Fates means a
// different path. Packets in flight may still arrive, so none is resent. Their fates say
// nothing about the new path.
//
// While the carrier reports fates, it paces packets and detects losses. This side still
// probes if nothing is acknowledged.
func (c *Conn) SetPath(now time.Time, p Path) {
	t := c.advanceClock(now)
	if p.Fates != c.path.Fates || p.Epoch != c.path.Epoch {
		c.move(t, p)
	}
	c.changed = c.changed || c.path.More && !p.More // repair bunches may be sent now
	c.path.Path = p
	if p.Window > 0 {
		c.gate.PathWindow = p.Window
	}
}

// move starts a new path, p. If the previous carrier reports fates, it still reports those
// of the packets in flight. Otherwise these packets are declared lost at path.until.
//
// move clears the loss timer and the count of probe timeouts, because both describe the
// previous path. The first probe on the new path must not wait for the backoff that an
// outage of the previous path built up.
func (c *Conn) move(t time.Duration, p Path) {
	c.leaveDark()
	path := &c.path
	path.since = t
	path.foreign = c.sent.Next
	path.stale = path.stale || !path.Fates && c.sent.flying > 0
	path.until = t + recovery.Overdue(max(p.RTT, c.gate.Current()), c.peerAckDelay)
	c.loss.Next = 0
	c.loss.ptos = 0
	c.changed = true
}

// Fate handles the fate of a packet, from a carrier that reports fates. The bunches of a
// lost packet are sent again. Those of an arrived packet are kept until the peer
// acknowledges it.
func (c *Conn) Fate(now time.Time, number uint64, arrived bool) {
	t := c.advanceClock(now)
	c.repairs.loss.Note()
	if !c.sent.Has(number) {
		return
	}
	p := c.sent.At(number)
	switch {
	case p.fate != flying:
		// An ack or a timeout has already decided its fate.
	case arrived:
		p.arrived = t
		if number >= c.path.foreign {
			c.leaveDark()
			c.path.arrived = t
		}
	default:
		c.losePacket(t, number, p)
		c.changed = true
	}
}

// giveUpArrivedAt returns the time at which to declare the oldest packet in flight lost
// although the carrier has reported its arrival. If the peer had kept it, its ack would
// have arrived by then. ok is false if no packet is in flight or the oldest has not
// arrived.
func (c *Conn) giveUpArrivedAt() (at time.Duration, ok bool) {
	_, p, ok := c.sent.oldestArrived()
	if !ok {
		return 0, false
	}
	return p.arrived + recovery.KeepTime, true
}

// giveUpForeign declares the remaining foreign packets in flight lost.
func (c *Conn) giveUpForeign(t time.Duration) {
	c.path.stale = false
	for n, ok := c.sent.firstFlying(); ok && n < c.path.foreign; n, ok = c.sent.firstFlying() {
		c.losePacket(t, n, c.sent.At(n))
	}
}

// giveUpArrived declares lost the packets that arrived long ago but were never
// acknowledged, because the peer did not keep them.
func (c *Conn) giveUpArrived(t time.Duration) {
	for {
		n, p, ok := c.sent.oldestArrived()
		if !ok || t < p.arrived+recovery.KeepTime {
			return
		}
		c.losePacket(t, n, p)
	}
}
