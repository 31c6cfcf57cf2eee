package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Path is what the carrier knows about the path to the peer.
type Path = recovery.Path

// pathState is what we know about the path to the peer.
//
// Packets that were sent on an earlier path are foreign. They may still be acknowledged, but
// their fates say nothing about this path.
type pathState struct {
	Path                      // as the carrier reported it last
	since       time.Duration // when this became the path
	lastArrival time.Duration // when the carrier last reported that a packet arrived on it

	// Foreign packets.
	foreign  uint64        // packets below this number are foreign
	stale    bool          // no carrier will report the fates of some foreign packets
	giveUpAt time.Duration // if stale, when we declare foreign packets lost
}

// lossy reports whether the path loses at least playLoss of its packets. If the carrier reports
// fates, we use its loss rate, and otherwise the one that we have measured.
func (p *pathState) lossy(measured float64) bool {
	if p.Fates {
		return p.Loss >= playLoss
	}
	return measured >= playLoss
}

// judges reports whether we may draw conclusions about the path from the fate of a packet. We
// don't if the packet is foreign. We also don't if the carrier reports fates, because then that
// is the carrier's job.
func (p *pathState) judges(number uint64) bool { return !p.Fates && number >= p.foreign }

// SetPath is called when the path may have changed. It has changed if Epoch or Fates is
// different. Packets in flight may still arrive, so a change alone causes no retransmissions,
// but the fates of these packets say nothing about the new path.
//
// A carrier that reports fates also paces packets and detects losses. We still send probes if
// nothing is acknowledged.
func (c *Conn) SetPath(now time.Time, p Path) {
	t := c.advanceClock(now)
	if p.Fates != c.path.Fates || p.Epoch != c.path.Epoch {
		c.switchPath(t, p)
	}
	if c.path.More && !p.More {
		c.changed = true // repair bunches may be sent now
	}
	c.path.Path = p
	if p.Window > 0 {
		c.congestion.PathWindow = p.Window
	}
}

// switchPath starts over on a new path, p.
//
// If the previous carrier reported fates, it still reports those of the packets in flight. If
// it didn't, we declare these packets lost when their acks are overdue.
func (c *Conn) switchPath(t time.Duration, p Path) {
	c.leaveDark()
	path := &c.path
	path.since = t
	path.foreign = c.sent.Next
	path.stale = path.stale || !path.Fates && c.sent.flying > 0
	path.giveUpAt = t + recovery.Overdue(max(p.RTT, c.congestion.Current()), c.peerAckDelay)

	// These describe the previous path. If it had an outage, the first probe on the new path
	// mustn't wait for the backoff that built up.
	c.loss.Next = 0
	c.loss.ptos = 0
	c.changed = true
}

// Fate is called by a carrier that reports fates when it knows whether a packet has arrived. If
// the packet is lost, its contents are retransmitted. If it has arrived, we still wait for the
// peer to acknowledge it before we free anything.
func (c *Conn) Fate(now time.Time, number uint64, arrived bool) {
	t := c.advanceClock(now)
	c.repairs.loss.Note()
	if !c.sent.Has(number) {
		return
	}
	p := c.sent.At(number)
	switch {
	case p.fate != flying:
		// An ack or a timeout has already decided it.
	case arrived:
		p.arrived = t
		if number >= c.path.foreign {
			c.leaveDark()
			c.path.lastArrival = t
		}
	default:
		c.losePacket(t, number, p)
		c.changed = true
	}
}

// giveUpArrivedAt returns the time at which we declare the oldest packet in flight lost,
// although the carrier has reported its arrival. If the peer had kept the packet's contents,
// its ack would have arrived by then. ok is false if the packet hasn't arrived, or if
// nothing is in flight.
func (c *Conn) giveUpArrivedAt() (at time.Duration, ok bool) {
	_, p, ok := c.sent.oldestArrived()
	if !ok {
		return 0, false
	}
	return p.arrived + recovery.KeepTime, true
}

// giveUpForeign declares all foreign packets that are still in flight lost.
func (c *Conn) giveUpForeign(t time.Duration) {
	c.path.stale = false
	for n, ok := c.sent.firstFlying(); ok && n < c.path.foreign; n, ok = c.sent.firstFlying() {
		c.losePacket(t, n, c.sent.At(n))
	}
}

// giveUpArrived declares packets lost if they arrived long ago but were never acknowledged.
// This means that the peer didn't keep their contents.
func (c *Conn) giveUpArrived(t time.Duration) {
	for {
		n, p, ok := c.sent.oldestArrived()
		if !ok || t < p.arrived+recovery.KeepTime {
			return
		}
		c.losePacket(t, n, p)
	}
}
