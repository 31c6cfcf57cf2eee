package bunch

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// minDatagram is the minimum size of the datagrams that a carrier must accept, 1,163 bytes.
	// An entry fits into such a packet no matter how large the headers are.
	minDatagram = maxHeaderBytes + maxBunchHeader + EntryBytes

	// fullDatagram is the size at which quic-go's path MTU discovery ends.
	fullDatagram = 1404

	// playDatagram is the maximum size of a packet with play (the game's own traffic), which
	// fills an ordinary sealed packet. Play doesn't go into jumbo packets, where it would have to
	// wait until the bulk beside it is transmitted.
	playDatagram = 1420

	// minPiece is the minimum size of a piece cut from an entry. The header of a piece takes
	// nearly as many bytes.
	minPiece = 16

	// minFill is the minimum room left in a packet for us to fill it with another piece.
	minFill = 32
)

// A builder holds the packet that AppendPacket is building.
type builder struct {
	buf       []byte      // what AppendPacket was given, and the packet so far
	start     int         // where the packet begins in buf
	limit     int         // the packet is full when len(buf) gets here
	bulkLimit int         // the limit if there's no play in the packet
	allowed   allowance   // which messages may be sent for the first time
	record    *sentPacket // what we have to remember about the packet

	bunches int              // in the packet
	content recovery.Content // kinds of traffic in the packet
}

// room returns the number of bytes left in the packet.
func (b *builder) room() int { return b.limit - len(b.buf) }

// widen is called before bulk is added. It raises the limit to what the carrier allows, unless the
// packet has play.
func (b *builder) widen() {
	if !b.content.Play {
		b.limit = b.bulkLimit
	}
}

// minBunch is the size of the smallest bunch that is worth adding: a reliable message of one byte
// on a channel below 64, with 6 bytes for the header and one for the length of the message.
const minBunch = 8

// full reports whether no more bunches can be added.
func (b *builder) full() bool {
	return b.bunches == maxBunches || b.room() < minBunch
}

// setFlag sets a flag in the packet's header.
func (b *builder) setFlag(flag byte) { b.buf[b.start+1] |= flag }

// hasFlag reports whether any of the given flags is set in the packet's header.
func (b *builder) hasFlag(flags byte) bool { return b.buf[b.start+1]&flags != 0 }

// AppendPacket appends the next packet, of at most size bytes, to buf and returns its number.
// There is no packet if size is below 1,163.
//
// AppendPacket must be called until ok is false, which means that there is nothing to send before
// NextTimeout or a call to another method.
func (c *Conn) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	t := c.advanceClock(now)
	c.commitLast()
	if c.err != nil || size < minDatagram {
		return buf, 0, false
	}
	if c.loss.probes > 0 && c.loss.ptos >= 2 {
		// The path may have shrunk, so try a small probe.
		size = minDatagram
	}

	// Is there anything to send, and can we keep a record of it?
	allowed := c.allowed()
	if allowed.play && c.unreliables.messages > 0 {
		c.expiry.noteChance(t, maxUnreliableWait+c.congestion.Smoothed)
	}
	hasBunches := c.canSendBunch(allowed)
	required := c.mustSend(t)
	if !hasBunches && !required || !c.makeRoom(t, required) {
		c.idle()
		return buf, 0, false
	}

	// Build the packet speculatively, because all of the bunches may turn out to be held back.
	next, unreported := c.sent.Next, c.received.unreported
	c.skipNumber(t)
	c.build = builder{
		buf:       buf,
		start:     len(buf),
		limit:     len(buf) + min(size, playDatagram),
		bulkLimit: len(buf) + size,
		allowed:   allowed,
		record:    c.sent.add(),
	}
	c.appendHeader(t, hasBunches)
	if hasBunches {
		c.fill()
	}
	if c.build.bunches == 0 && !required {
		// The packet isn't needed after all, so undo what building it has changed.
		c.sent.truncate(next)
		c.received.unreported = unreported
		c.idle()
		return buf, 0, false
	}
	return c.finishPacket(t)
}

// mustSend reports whether a packet must be sent even if there are no bunches for it: a probe,
// a keep-alive, an ack that is due, or a higher limit. Of these, a cork delays only the limit,
// and by no more than AckDelay.
func (c *Conn) mustSend(t time.Duration) bool {
	limitDue := c.flow.updateDue && c.cork.open() || t >= c.corkedLimitAt()
	return c.needsAckNow() || c.keepAliveDue || t >= c.received.ackAt() || limitDue
}

// corkedLimitAt returns when a higher limit is sent in spite of the cork. The timer isn't set if
// there's no higher limit, or if the cork doesn't delay it.
func (c *Conn) corkedLimitAt() time.Duration {
	if !c.flow.updateDue || c.cork.open() {
		return never
	}
	return c.cork.since + c.config.AckDelay
}

// needsAckNow reports whether the next packet must ask for an ack at once.
func (c *Conn) needsAckNow() bool { return c.loss.probes > 0 || c.flow.askDue }

// makeRoom makes room for the record of another packet, by dropping the oldest record if there's no
// other way. It returns false if there is no room.
//
// If the peer acknowledges nothing, the oldest packet is still in flight and must be declared
// lost before its record is dropped. We only do that to send a packet that is required, because
// the bunches of the lost packet would otherwise be retransmitted in another packet, which would
// need room as well, and so on forever.
func (c *Conn) makeRoom(t time.Duration, required bool) bool {
	if c.sent.makeRoom() {
		return true
	}
	if p := c.sent.At(c.sent.Oldest); p.fate == inFlight {
		if !required {
			return false
		}
		c.losePacket(t, c.sent.Oldest, p)
	}
	c.sent.drop()
	return true
}

// appendHeader appends the packet's header, along with acks if the peer has asked for
// any, and the limit if there's a higher one to announce. If bunches follow, it leaves
// enough room for an entry.
func (c *Conn) appendHeader(t time.Duration, hasBunches bool) {
	b := &c.build
	b.buf = append(b.buf, Protocol, 0)
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(c.sent.Next-1))

	limit := 0 // bytes that the limit will take
	if c.flow.updateDue {
		limit = varintLen(c.flow.limitKiB())
	}
	if c.received.unacked > 0 {
		room := b.room() - limit
		if hasBunches {
			room = maxHeaderBytes - packetHeaderBytes - limit
		}
		covered := false
		b.buf, covered = c.received.appendAcks(b.buf, t, room)
		b.setFlag(flagAcks)
		b.record.acks = true
		if covered {
			b.record.covers = c.received.Next
		}
	}

	if c.flow.updateDue {
		b.setFlag(flagLimit)
		b.buf = appendVarint(b.buf, c.flow.limitKiB())
		b.record.limit = true
	}
}

// finishPacket completes the header, and records what we need to know when the packet is
// acknowledged or lost, or when Unsent takes it back.
func (c *Conn) finishPacket(t time.Duration) (packet []byte, number uint64, ok bool) {
	b := &c.build
	p := b.record
	p.at = t
	p.size = len(b.buf) - b.start
	if b.bunches > 0 {
		c.sent.countBunches(p)
	}
	if p.acks {
		c.received.ackSent(t)
	}

	// Decide whether the packet asks for an ack.
	if b.bunches == 0 {
		c.finishBare()
	}
	if c.needsAckNow() {
		b.setFlag(flagAckNow)
	}
	if b.bunches > 0 || b.hasFlag(flagPing|flagLimit) {
		c.putInFlight(t)
	}

	// This packet satisfies whatever required a packet.
	if c.loss.probes > 0 {
		p.probe = true
		c.loss.probes--
		c.stats.ProbesSent++
	}
	if p.limit {
		c.flow.limitSent(c.sent.Next - 1)
	}
	c.flow.askDue, c.keepAliveDue = false, false
	c.stats.PacketsSent++
	c.stats.BytesSent += uint64(p.size)

	packet = b.buf
	number = c.sent.Next - 1
	c.skips.packetSent(number)
	if c.traced() {
		c.trace(Event{Kind: "sent", Number: number, Bytes: p.size, Asks: p.fate == inFlight})
	}
	c.content = b.content
	c.build = builder{}
	if len(c.watched) > 0 {
		c.checkWatches() // fewer bytes are waiting now
	}
	return packet, number, true
}

// putInFlight records that the packet is in flight and elicits an ack, and decides whether it asks
// for that ack at once.
func (c *Conn) putInFlight(t time.Duration) {
	p, hasBulk := c.build.record, c.build.content.Bulk
	if hasBulk {
		c.congestion.BulkSent(t)
	}
	p.mark = c.congestion.Sent(t, c.sent.bytesInFlight)
	if c.sent.packetsInFlight == 0 {
		c.loss.silentSince = t
	}
	c.sent.packetSent(p, t)
	if c.path.lossy(c.sent.lossRate) {
		c.repeats.note(p)
	}
	c.received.acksOnly = 0

	if hasBulk {
		c.repeatTail(p)
		c.sent.bulkSinceAckNow++
		if c.wantsAck() {
			c.sent.bulkSinceAckNow = 0
			c.build.setFlag(flagAckNow)
		}
	} else if t < c.loss.othersUntil {
		// A datagram of another protocol may overtake it (see Overtaken).
		c.build.setFlag(flagAckNow)
	}
	p.ackNow = c.build.hasFlag(flagAckNow)
}

// acksPerWindow is the number of packets with bulk in each window that ask for an ack at once. QUIC
// only increases its window while nearly all of it is in flight, so with long gaps between acks the
// window grows more slowly. With 8 acks per window, it grew only half as fast.
const acksPerWindow = 16

// wantsAck reports whether the packet with bulk that was just put in flight should ask for an
// ack at once.
//
// It should once per interval, which is never shorter than two packets. A small window then opens
// as steadily as QUIC's, where every second packet is acknowledged (RFC 9000, section 13.2.2). It
// also should if the window is full with so few packets in flight that the peer would otherwise
// wait for its ack delay before it acknowledges them.
func (c *Conn) wantsAck() bool {
	interval := max(2, c.congestion.Window(fullDatagram)/(acksPerWindow*fullDatagram))
	stuck := c.sent.packetsInFlight < 2*ackEvery && !c.windowOpen()
	return c.sent.bulkSinceAckNow >= interval || stuck
}

// finishBare decides whether a bare packet, one without bunches, asks for an ack.
func (c *Conn) finishBare() {
	needsAck := c.needsAckNow() || c.keepAliveDue
	if !c.build.record.limit && !needsAck {
		c.stats.AcksOnlySent++
		c.received.acksOnly++
	}
	if needsAck || c.received.acksOnly >= pingEvery {
		// After many ack-only packets, we want to know which of them arrived.
		c.build.setFlag(flagPing)
	}
}

// idle is called when AppendPacket finds nothing to send.
func (c *Conn) idle() {
	c.cork.flushing = false
	bulk := &c.levels[bulkLevel]
	hasBulk := bulk.unsent.len()+bulk.resend.len() > 0
	if hasBulk && !c.windowOpen() {
		return // the window is what limits us
	}
	// We aren't using all of the window, so our rate must not be mistaken for the rate of the path
	// (RFC 9002, section 7.8).
	c.congestion.Limited(c.sent.bytesInFlight)
}
