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
	stale    bool          // no carrier will report the fates of some of them
	giveUpAt time.Duration // if stale, when we declare them lost
}

// lossy reports whether the path loses at least playLoss of its packets. We go by the loss
// rate of the carrier if it reports fates, and otherwise by what we have measured.
func (p *pathState) lossy(measured float64) bool {
	if p.Fates {
		return p.Loss >= playLoss
	}
	return measured >= playLoss
}

// judges reports whether we may draw conclusions about the path from the fate of a packet. We
// don't if it's foreign, or if that's the job of a carrier that reports fates.
func (p *pathState) judges(number uint64) bool { return !p.Fates && number >= p.foreign }

// SetPath is called when the path may have changed, which it has if Epoch or Fates is
// different. Packets in flight may still arrive, so nothing is retransmitted for that, but
// their fates say nothing about the new path.
//
// While a carrier reports fates, it is up to the carrier to pace packets and detect losses,
// but we still probe if nothing is acknowledged.
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
// A carrier that reports fates still reports those of the packets in flight. If the previous
// one didn't, we declare them lost when their acks are overdue.
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

// Fate is called by a carrier that reports fates when it knows whether a packet has arrived.
// If it is lost, what it carried is retransmitted. If it arrived, we wait for the peer to
// acknowledge it before we free anything.
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

// giveUpArrivedAt returns when to declare the oldest packet in flight lost although the
// carrier has reported its arrival. If the peer had kept what was in it, an ack would be here
// by then. ok is false if it hasn't arrived, or nothing is in flight.
func (c *Conn) giveUpArrivedAt() (at time.Duration, ok bool) {
	_, p, ok := c.sent.oldestArrived()
	if !ok {
		return 0, false
	}
	return p.arrived + recovery.KeepTime, true
}

// giveUpForeign declares all foreign packets lost that are still in flight.
func (c *Conn) giveUpForeign(t time.Duration) {
	c.path.stale = false
	for n, ok := c.sent.firstFlying(); ok && n < c.path.foreign; n, ok = c.sent.firstFlying() {
		c.losePacket(t, n, c.sent.At(n))
	}
}

// giveUpArrived declares those packets lost that arrived long ago without being acknowledged,
// which means that the peer didn't keep what was in them.
func (c *Conn) giveUpArrived(t time.Duration) {
	for {
		n, p, ok := c.sent.oldestArrived()
		if !ok || t < p.arrived+recovery.KeepTime {
			return
		}
		c.losePacket(t, n, p)
	}
}
