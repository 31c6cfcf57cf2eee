package bunch

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	minDatagram  = maxHeaderBytes + maxBunchHeader + EntryBytes // 1,163: an entry always fits
	fullDatagram = 1404                                         // where quic-go's path MTU discovery ends
	// The largest with play: it fills a common sealed packet; in a jumbo one,
	// play would wait for bulk.
	playDatagram = 1420
	// The smallest piece that an entry is cut into: the header of a piece takes
	// nearly as many bytes.
	minPiece = 16
	// The least room in a packet that is worth another piece with its header.
	minFill = 32
)

// A builder holds the packet that AppendPacket is building.
type builder struct {
	buf     []byte           // the argument of AppendPacket, with the packet so far
	start   int              // index in buf of the packet's first byte
	limit   int              // the packet is full when len(buf) reaches it
	most    int              // limit of a packet without play: see widen
	bunches int              // in the packet
	content recovery.Content // of the bunches
	fresh   fresh            // which bunches may be placed that were never sent
	packet  *packet          // the record of the packet
}

// room returns how many bytes may still be appended.
func (b *builder) room() int { return b.limit - len(b.buf) }

// widen raises the limit to that of a packet without play, unless this one has some.
func (b *builder) widen() {
	if !b.content.Play {
		b.limit = b.most
	}
}

// full reports whether no further bunch can fit. The smallest, a reliable message of one byte
// on a channel below 64, takes 8 bytes: 6 for the header, one for the length, and the message.
func (b *builder) full() bool {
	return b.bunches == maxBunches || b.room() < 8
}

// AppendPacket appends the next packet, of at most size bytes, to buf, and returns its
// number. It makes no packet if size is below 1,163. Call it until ok is false: then
// there is nothing to send before NextTimeout, or before another method is called.
func (c *Conn) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	t := c.advanceClock(now)
	c.settle()
	if c.err != nil || size < minDatagram {
		return buf, 0, false
	}
	if c.loss.probes > 0 && c.loss.ptos >= 2 {
		size = minDatagram // a path that shrank lets small probes through
	}

	// Is there anything to send? Then there must be room for its record.
	fresh := c.freshAllowed()
	if fresh.play && c.unreliables.messages > 0 {
		c.saturation.chances.note(t, freshTime+c.gate.Smoothed)
	}
	content, must := c.hasContent(fresh), c.must(t)
	if !content && !must || !c.makeRoom(t, must) {
		c.idle()
		return buf, 0, false
	}

	next, toTell := c.sent.Next, c.received.toTell
	c.skipNumber(t)
	c.build = builder{buf: buf, start: len(buf), limit: len(buf) + min(size, playDatagram), most: len(buf) + size, fresh: fresh, packet: c.sent.add()}
	c.appendHeader(t, content)
	if content {
		c.fill()
	}
	if c.build.bunches == 0 && !must { // all that waits is held
		c.sent.takeBack(next)
		c.received.toTell = toTell
		c.idle()
		return buf, 0, false
	}
	return c.launch(t)
}

// must reports whether a packet must be sent even if it carries no bunch: a
// probe, a keep-alive, or an ack or a limit that the peer waits for. A cork
// does not hold them back, except a limit, for at most AckDelay.
func (c *Conn) must(t time.Duration) bool {
	return c.mustPing() || c.silent || c.received.due(t) || c.flow.update && (c.cork.open() || t >= c.corkEnds())
}

// corkEnds returns when a higher limit is sent although the tick is not over.
func (c *Conn) corkEnds() time.Duration { return c.cork.since + c.config.AckDelay }

// mustPing reports whether a packet must be sent that asks for an ack at once.
func (c *Conn) mustPing() bool { return c.loss.probes > 0 || c.flow.probe }

// makeRoom makes room for the record of another packet, and reports whether it could.
// There is none if the peer acknowledges nothing. Then the oldest record is dropped.
// If its packet is in flight, makeRoom does so only for a packet that must be sent,
// and counts the old one as lost first. The bunches of the lost packet are sent
// again; without that condition, their packets would push out further ones forever.
func (c *Conn) makeRoom(t time.Duration, must bool) bool {
	if !c.sent.full() {
		return true
	}
	if p := c.sent.At(c.sent.Oldest); p.fate == flying {
		if !must {
			return false
		}
		c.losePacket(t, c.sent.Oldest, p)
	}
	c.sent.drop()
	return true
}

// appendHeader appends the packet's header, with acks and a limit if these are
// due. In a packet with content it leaves room for an entry.
func (c *Conn) appendHeader(t time.Duration, content bool) {
	b := &c.build
	b.buf = append(b.buf, Protocol, 0)
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(c.sent.Next-1))

	limit := 0 // bytes that the limit will take
	if c.flow.update {
		limit = varintLen(c.flow.kib())
	}
	if c.received.asking > 0 {
		room := b.room() - limit
		if content {
			room = maxHeaderBytes - packetHeaderBytes - limit
		}
		covered := false
		b.buf, covered = c.received.appendAcks(b.buf, t, room)
		b.buf[b.start+1] |= flagAcks
		b.packet.acks = true
		if covered {
			b.packet.covers = c.received.Next
		}
	}

	if c.flow.update {
		b.buf[b.start+1] |= flagLimit
		b.buf = appendVarint(b.buf, c.flow.kib())
		b.packet.limit = true
	}
}

// launch finishes the packet, and records in it what is needed when it is acked
// or lost, or never sent (see Unsent).
func (c *Conn) launch(t time.Duration) (packet []byte, number uint64, ok bool) {
	b, p := &c.build, c.build.packet
	flags := &b.buf[b.start+1]
	p.at, p.size = t, len(b.buf)-b.start
	if b.bunches > 0 {
		c.sent.load(p)
	}

	// The header: what the packet asks of the peer.
	if *flags&flagAcks != 0 {
		c.received.ackSent(t)
	}
	if b.bunches == 0 {
		c.finishBare(flags)
	}
	if c.mustPing() {
		*flags |= flagAckNow
	}
	if b.bunches > 0 || *flags&(flagPing|flagLimit) != 0 {
		c.putInFlight(t, p, flags)
	}

	// What it settles here.
	if c.loss.probes > 0 {
		p.probe = true
		c.loss.probes--
		c.stats.ProbesSent++
	}
	if *flags&flagLimit != 0 {
		c.flow.limitSent(c.sent.Next - 1)
	}
	c.flow.probe, c.silent = false, false
	c.stats.PacketsSent++
	c.stats.BytesSent += uint64(p.size)

	packet, number = b.buf, c.sent.Next-1
	c.skips.launched(number)
	if c.traced() {
		c.trace(Event{Kind: "sent", Number: number, Bytes: p.size, Asks: p.fate == flying})
	}
	c.content = b.content
	c.build = builder{}
	if len(c.watched) > 0 {
		c.checkWatches() // less waits now
	}
	return packet, number, true
}

// putInFlight records that p elicits an ack, and decides whether it asks for that at once.
func (c *Conn) putInFlight(t time.Duration, p *packet, flags *byte) {
	bulk := c.build.content.Bulk
	if bulk {
		c.gate.Bulk(t)
	}
	p.mark = c.gate.Sent(t, c.sent.inFlight)
	if c.sent.flying == 0 {
		c.loss.unanswered = t
	}
	c.sent.launched(p, t)
	if c.path.lossy(c.sent.loss) {
		c.repeats.note(p)
	}
	if bulk {
		c.repeatTail(p)
	}
	c.received.acksOnly = 0
	if bulk && c.wantsAck() || !bulk && t < c.loss.besideTill {
		*flags |= flagAckNow
	}
	p.prompt = *flags&flagAckNow != 0
}

// wantsAck reports whether a packet with bulk asks for an ack at once. One packet per
// sixteenth of the window does, but at most every second packet. So a small window opens as
// steadily as QUIC's, whose receivers acknowledge every second packet (RFC 9000, section
// 13.2.2). A sixteenth, because QUIC's window grows only while nearly all of it is in flight:
// with an ack for each eighth it grew half as fast. A packet also asks if the window is full
// and too few packets are in flight for the peer to ack them before its ack delay ends.
func (c *Conn) wantsAck() bool {
	c.sent.unasked++
	if c.sent.unasked < max(2, c.gate.Window(fullDatagram)/(16*fullDatagram)) && (c.sent.flying >= 2*ackEvery || c.windowOpen()) {
		return false
	}
	c.sent.unasked = 0
	return true
}

// finishBare decides whether a packet without bunches asks for an ack.
func (c *Conn) finishBare(flags *byte) {
	asks := c.mustPing() || c.silent
	if *flags&flagLimit == 0 && !asks {
		c.stats.AcksOnlySent++
		c.received.acksOnly++
	}
	if asks || c.received.acksOnly >= pingEvery {
		*flags |= flagPing
	}
}

// idle is called when AppendPacket has nothing to send. Unless bulk waits for the window, the
// connection is then application-limited (RFC 9002, section 7.8), which idle reports to the gate.
func (c *Conn) idle() {
	c.cork.flushing = false
	if lv := &c.levels[bulkLevel]; lv.fresh.len()+lv.resend.len() > 0 && !c.windowOpen() {
		return
	}
	c.gate.Limited(c.sent.inFlight)
}
