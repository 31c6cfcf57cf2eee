package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Path is what the carrier (QUIC or sealed packets) knows about the path to the peer.
//
// Epoch increases when packets begin to take another path. If Fates is set, the carrier reports the
// fate of each packet, which is whether it arrived or was lost, by calling [Conn.Fate].
type Path = recovery.Path

// pathState is what we know about the path to the peer.
//
// Packets that were sent on an earlier path are called foreign. They may still be acknowledged,
// but their fates say nothing about the current path.
type pathState struct {
	Path                      // the carrier's latest report
	since       time.Duration // when we began to use the path
	lastArrival time.Duration // when the carrier last reported that a packet arrived on it

	firstOwn     uint64        // number of the first packet that isn't foreign
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

// isEvidence reports whether the fate of a packet says something about the path. It doesn't if
// the packet is foreign, and we don't need it if the carrier reports fates, because such a carrier
// detects losses and paces packets itself.
func (p *pathState) isEvidence(number uint64) bool { return !p.Fates && number >= p.firstOwn }

// foreignOverdueAt returns when to call loseForeign, because the acks of foreign packets are
// overdue.
func (p *pathState) foreignOverdueAt() time.Duration {
	if p.foreignUntil == 0 {
		return never
	}
	return p.foreignUntil
}

// SetPath tells the connection what the carrier now knows about the path. If Epoch or Fates differs
// from the last call, packets take another path from now on. That alone causes no retransmissions,
// since packets in flight may still arrive.
//
// A carrier that sets Fates also detects losses and paces packets, so the connection does neither.
// It still sends probes if nothing is acknowledged. If Window isn't 0, it is the number of bytes
// that the path holds. While More is set, the owner has more bulk to queue, so no repair bunches
// are sent yet.
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

// SetWindow sets the number of bytes that may be in flight on the path, which is the path's
// congestion window plus a few packets. 0 means that it is not known.
func (c *Conn) SetWindow(bytes int) { c.congestion.PathWindow = bytes }

// switchPath starts over on a new path. oldRTT is the round trip of the previous path, or 0 if the
// carrier doesn't know it.
//
// A carrier that reported fates on the previous path keeps reporting them for the packets in
// flight. Otherwise, we declare these packets lost once their acks are overdue.
func (c *Conn) switchPath(t, oldRTT time.Duration) {
	c.endOutage()
	path := &c.path
	unreported := !path.Fates && c.sent.packetsInFlight > 0
	if unreported || path.foreignUntil != 0 {
		path.foreignUntil = t + recovery.Overdue(max(oldRTT, c.congestion.Current()), c.peerAckDelay)
	}
	path.since = t
	path.firstOwn = c.sent.Next
	c.loss.restart()
	c.changed = true
}

// Fate reports whether a packet arrived or was lost. A carrier that sets Path.Fates calls it as
// soon as it knows. The contents of a lost packet are retransmitted. If the packet arrived, we
// still wait for the peer to acknowledge it before we free anything.
func (c *Conn) Fate(now time.Time, number uint64, arrived bool) {
	t := c.advanceClock(now)
	if !c.sent.Has(number) {
		return
	}
	p := c.sent.At(number)
	switch {
	case p.fate != inFlight:
		// An ack or a timeout has already decided the fate.
	case arrived:
		p.arrived = t
		if number >= c.path.firstOwn {
			c.endOutage()
			c.path.lastArrival = t
		}
	default:
		c.losePacket(t, number, p)
		c.changed = true
	}
}

// loseForeign gives up on all foreign packets still in flight.
func (c *Conn) loseForeign(t time.Duration) {
	c.path.foreignUntil = 0
	for {
		n, ok := c.sent.firstInFlight()
		if !ok || n >= c.path.firstOwn {
			return
		}
		c.losePacket(t, n, c.sent.At(n))
	}
}

// loseUnkept gives up on packets that the peer hasn't kept, although the carrier reported that they
// arrived. If the peer had kept a packet's contents, it would have acknowledged them within
// recovery.KeepTime.
func (c *Conn) loseUnkept(t time.Duration) {
	for t >= c.sent.unkeptAt() {
		n, _ := c.sent.firstInFlight()
		c.losePacket(t, n, c.sent.At(n))
	}
}
