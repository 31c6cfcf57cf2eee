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
	// fills an ordinary sealed packet. Play never shares a jumbo packet with bulk, which would
	// delay it.
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

	bunches int              // number of bunches added so far
	content recovery.Content // kinds of traffic added so far

	// What building the packet has changed, as it was before, for abandon.
	nextBefore       uint64     // the number of the next packet
	unreportedBefore unreported // what appendAcks has changed
}

// abandon drops a packet that has turned out to be empty, and undoes what building it has changed.
//
// Only the record and the acks must be undone. An empty packet has sent nothing that was queued,
// and if filling it has dropped stale messages, or has found that flow control blocks, that's true
// without the packet, too.
func (b *builder) abandon(sent *sentPackets, received *received) {
	sent.truncate(b.nextBefore)
	received.unreported = b.unreportedBefore
	*b = builder{}
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
// There is no packet if size is below 1,163 (minDatagram).
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
	next := c.sent.Next
	c.skipNumber(t)
	c.build = builder{
		buf:       buf,
		start:     len(buf),
		limit:     len(buf) + min(size, playDatagram),
		bulkLimit: len(buf) + size,
		allowed:   allowed,
		record:    c.sent.add(),

		nextBefore:       next,
		unreportedBefore: c.received.unreported,
	}
	c.appendHeader(t, hasBunches)
	if hasBunches {
		c.fill()
	}
	if c.build.bunches == 0 && !required {
		c.build.abandon(&c.sent, &c.received)
		c.idle()
		return buf, 0, false
	}
	packet, number = c.finishPacket(t)
	return packet, number, true
}

// mustSend reports whether a packet must be sent even if there are no bunches for it: a probe,
// a keep-alive, an ack that is due, or a higher limit. Of these, a cork delays only the limit,
// and by no more than AckDelay.
func (c *Conn) mustSend(t time.Duration) bool {
	limitDue := c.flow.updateDue && (c.cork.open() || t >= c.corkedLimitAt())
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

// finishPacket returns the finished packet and its number. It decides whether the packet asks for
// an ack, and records what we need to know when the packet is acknowledged or lost, or when Unsent
// takes it back.
func (c *Conn) finishPacket(t time.Duration) (packet []byte, number uint64) {
	b := &c.build
	p := b.record
	p.at = t
	p.size = len(b.buf) - b.start
	number = c.sent.Next - 1
	if b.bunches > 0 {
		c.sent.countBunches(p)
	} else {
		c.finishBare()
	}
	if b.bunches > 0 || b.hasFlag(flagPing|flagLimit) {
		c.putInFlight(t)
	}

	// The packet satisfies whatever required one (see mustSend).
	if p.acks {
		c.received.ackSent(t)
	}
	if p.limit {
		c.flow.limitSent(number)
	}
	if c.loss.probes > 0 {
		p.probe = true
		c.loss.probes--
		c.stats.ProbesSent++
	}
	c.flow.askDue, c.keepAliveDue = false, false

	c.skips.packetSent(number)
	c.stats.PacketsSent++
	c.stats.BytesSent += uint64(p.size)
	if c.traced() {
		c.trace(Event{Kind: "sent", Number: number, Bytes: p.size, Asks: p.fate == inFlight})
	}
	packet = b.buf
	c.content = b.content
	c.build = builder{}
	if len(c.watched) > 0 {
		c.checkWatches() // fewer bytes are waiting now
	}
	return packet, number
}

// putInFlight records that the packet is in flight and elicits an ack, and then decides whether it
// asks for that ack at once. That depends on how full the window is, this packet included.
func (c *Conn) putInFlight(t time.Duration) {
	p := c.build.record
	if c.build.content.Bulk {
		c.congestion.BulkSent(t)
	}
	p.mark = c.congestion.Sent(t, c.sent.bytesInFlight)
	if c.sent.packetsInFlight == 0 {
		c.loss.silentSince = t
	}
	c.sent.packetSent(p, t)
	c.received.acksOnly = 0
	if c.path.lossy(c.sent.lossRate) {
		c.repeats.note(p)
	}

	// A datagram of another protocol may overtake a packet without bulk (see Overtaken).
	wantsAck := t < c.loss.othersUntil
	if c.build.content.Bulk {
		c.repeatTail(p)
		c.sent.bulkSinceAckNow++
		wantsAck = c.bulkWantsAck()
		if wantsAck {
			c.sent.bulkSinceAckNow = 0
		}
	}
	p.ackNow = wantsAck || c.needsAckNow()
	if p.ackNow {
		c.build.setFlag(flagAckNow)
	}
}

// acksPerWindow is the number of packets with bulk in each window that ask for an ack at once. QUIC
// only increases its window while nearly all of it is in flight, so with long gaps between acks the
// window grows more slowly. With 8 acks per window, it grew only half as fast.
const acksPerWindow = 16

// bulkWantsAck reports whether the packet with bulk that was just put in flight should ask for an
// ack at once.
//
// One packet per interval asks for an ack. So does every packet while the window is full but too
// few packets are in flight for the peer to acknowledge them before its ack delay is over.
//
// The interval is never shorter than two packets, so that a small window opens as steadily as
// QUIC's, where every second packet is acknowledged (RFC 9000, section 13.2.2).
func (c *Conn) bulkWantsAck() bool {
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
