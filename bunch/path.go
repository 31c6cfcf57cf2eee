package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Path is what the carrier (QUIC or sealed packets) knows about the path to the peer. It includes
// the fates of packets, which means that the carrier reports whether each packet has arrived, and
// the epoch, a number that rises when packets take another path.
type Path = recovery.Path

// pathState is what we know about the path to the peer.
//
// Packets that were sent on an earlier path are called foreign. They may still be acknowledged,
// but whether they were lost says nothing about the current path.
type pathState struct {
	Path                      // the carrier's latest report
	since       time.Duration // when we began to use the path
	lastArrival time.Duration // when the carrier last reported that a packet arrived on it

	foreign      uint64        // packets below this number are foreign
	foreignUntil time.Duration // when foreign packets count as lost; 0 if the carrier reports it
}

// lossy reports whether the path loses at least playLoss of its packets. We use the carrier's
// loss rate if it reports fates, and otherwise the one that we have measured.
func (p *pathState) lossy(measured float64) bool {
	if p.Fates {
		return p.Loss >= playLoss
	}
	return measured >= playLoss
}

// judges reports whether the fate of a packet counts as evidence about the path. It doesn't if
// the packet is foreign, or if the carrier reports fates and thus does its own loss detection
// and pacing.
func (p *pathState) judges(number uint64) bool { return !p.Fates && number >= p.foreign }

// foreignLostAt returns when loseForeign must be called.
func (p *pathState) foreignLostAt() time.Duration {
	if p.foreignUntil == 0 {
		return never
	}
	return p.foreignUntil
}

// SetPath is called when the path may have changed. It has changed if Epoch or Fates is
// different. The change alone causes no retransmissions, since packets in flight may still
// arrive.
//
// A carrier that reports fates also paces packets and detects losses. We still send probes if
// nothing is acknowledged.
func (c *Conn) SetPath(now time.Time, path Path) {
	t := c.advanceClock(now)
	if path.Fates != c.path.Fates || path.Epoch != c.path.Epoch {
		c.switchPath(t, path.RTT)
	}
	if c.path.More && !path.More {
		c.changed = true // repair bunches may be sent now
	}
	c.path.Path = path
	if path.Window > 0 {
		c.congestion.PathWindow = path.Window
	}
}

// switchPath starts over on a new path. rtt is the round trip of the previous path, or 0 if the
// carrier doesn't know it.
//
// If the previous carrier reported fates, it keeps reporting them for the packets in flight. If
// it didn't, we declare these packets lost once their acks are overdue.
func (c *Conn) switchPath(t, rtt time.Duration) {
	c.endOutage()
	path := &c.path
	unreported := !path.Fates && c.sent.packetsInFlight > 0
	if unreported || path.foreignUntil != 0 {
		path.foreignUntil = t + recovery.Overdue(max(rtt, c.congestion.Current()), c.peerAckDelay)
	}
	path.since = t
	path.foreign = c.sent.Next
	c.loss.restart()
	c.changed = true
}

// Fate is called by a carrier that reports fates when it knows whether a packet has arrived. If
// the packet is lost, its contents are retransmitted. If it has arrived, we still wait for the
// peer to acknowledge it before we free anything.
func (c *Conn) Fate(now time.Time, number uint64, arrived bool) {
	t := c.advanceClock(now)
	if !c.sent.Has(number) {
		return
	}
	p := c.sent.At(number)
	switch {
	case p.fate != inFlight:
		// An ack or a timeout has already decided it.
	case arrived:
		p.arrived = t
		if number >= c.path.foreign {
			c.endOutage()
			c.path.lastArrival = t
		}
	default:
		c.losePacket(t, number, p)
		c.changed = true
	}
}

// loseForeign declares all foreign packets that are still in flight lost.
func (c *Conn) loseForeign(t time.Duration) {
	c.path.foreignUntil = 0
	for n, ok := c.sent.firstInFlight(); ok && n < c.path.foreign; n, ok = c.sent.firstInFlight() {
		c.losePacket(t, n, c.sent.At(n))
	}
}

// loseArrived declares the oldest packet in flight lost although the carrier has reported its
// arrival. If the peer had kept the packet's contents, it would have acknowledged them by now.
func (c *Conn) loseArrived(t time.Duration) {
	n, _ := c.sent.firstInFlight()
	c.losePacket(t, n, c.sent.At(n))
}
