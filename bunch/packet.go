package bunch

import (
	"encoding/binary"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	minDatagram  = maxHeaderBytes + maxBunchHeader + EntryBytes // 1,163: an entry always fits
	fullDatagram = 1404                                         // where quic-go's path MTU discovery ends
	// Maximum size of a packet with play. It fills a common sealed packet. In a jumbo
	// packet, play would have to wait for bulk.
	playDatagram = 1420
	// Minimum size of a piece cut from an entry. The header of a piece takes nearly as many
	// bytes.
	minPiece = 16
	// Minimum room in a packet that is worth another piece with its header.
	minFill = 32
)

// A builder holds the packet that AppendPacket is building.
type builder struct {
	buf       []byte           // the argument of AppendPacket, with the packet so far
	start     int              // index in buf of the packet's first byte
	limit     int              // the packet is full when len(buf) reaches it
	bulkLimit int              // limit of a packet without play; see widen
	bunches   int              // in the packet
	content   recovery.Content // of the bunches
	fresh     fresh            // bunches that may be sent for the first time
	packet    *packet          // the record of the packet
}

// room returns how many bytes may still be appended.
func (b *builder) room() int { return b.limit - len(b.buf) }

// widen raises the limit to that of a packet without play, unless this packet has some.
func (b *builder) widen() {
	if !b.content.Play {
		b.limit = b.bulkLimit
	}
}

// full reports whether no further bunch can fit. The smallest bunch, a reliable message of
// one byte on a channel below 64, takes 8 bytes: 6 for the header, 1 for the length and 1
// for the message.
func (b *builder) full() bool {
	return b.bunches == maxBunches || b.room() < 8
}

// AppendPacket appends the next packet, of at most size bytes, to buf and returns its
// number. It makes no packet if size is below 1,163.
//
// The caller repeats the call until ok is false. There is then nothing to send before
// NextTimeout or the next call of another method.
func (c *Conn) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	t := c.advanceClock(now)
	c.settle()
	if c.err != nil || size < minDatagram {
		return buf, 0, false
	}
	if c.loss.probes > 0 && c.loss.ptos >= 2 {
		size = minDatagram // a path that shrank lets small probes through
	}

	// There must be something to send, and room for its record.
	fresh := c.freshAllowed()
	if fresh.play && c.unreliables.messages > 0 {
		c.saturation.chances.note(t, freshTime+c.gate.Smoothed)
	}
	content := c.hasContent(fresh)
	must := c.must(t)
	if !content && !must || !c.makeRoom(t, must) {
		c.idle()
		return buf, 0, false
	}

	next := c.sent.Next
	unreported := c.received.unreported
	c.skipNumber(t)
	c.build = builder{
		buf:       buf,
		start:     len(buf),
		limit:     len(buf) + min(size, playDatagram),
		bulkLimit: len(buf) + size,
		fresh:     fresh,
		packet:    c.sent.add(),
	}
	c.appendHeader(t, content)
	if content {
		c.fill()
	}
	if c.build.bunches == 0 && !must { // everything that waits is held back
		c.sent.takeBack(next)
		c.received.unreported = unreported
		c.idle()
		return buf, 0, false
	}
	return c.launch(t)
}

// must reports whether a packet must be sent even if it has no bunches: a probe, a
// keep-alive, a due ack or a higher limit. A cork delays only the limit, by at most
// AckDelay.
func (c *Conn) must(t time.Duration) bool {
	return c.mustPing() || c.silent || c.received.due(t) ||
		c.flow.update && (c.cork.open() || t >= c.corkEnds())
}

// corkEnds returns the time from which a higher limit is sent even during a tick.
func (c *Conn) corkEnds() time.Duration { return c.cork.since + c.config.AckDelay }

// mustPing reports whether a packet that asks for an ack at once must be sent.
func (c *Conn) mustPing() bool { return c.loss.probes > 0 || c.flow.probe }

// makeRoom makes room for the record of another packet and reports whether it could. There
// is none left if the peer acknowledges nothing, so makeRoom drops the oldest record.
//
// If that packet is still in flight, makeRoom first declares it lost, but only to make room
// for a packet that must be sent. The bunches of the lost packet are sent again. Without
// the condition, their packets would push out further ones forever.
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

// appendHeader appends the packet's header, with acks and a limit if they are due. In a
// packet with content it leaves room for an entry.
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

// launch finishes the packet. It records the information needed when the packet is acked or
// lost, or if it turns out not to have been sent (see Unsent).
func (c *Conn) launch(t time.Duration) (packet []byte, number uint64, ok bool) {
	b := &c.build
	p := b.packet
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

	// What the packet settles here.
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

	packet = b.buf
	number = c.sent.Next - 1
	c.skips.launched(number)
	if c.traced() {
		c.trace(Event{Kind: "sent", Number: number, Bytes: p.size, Asks: p.fate == flying})
	}
	c.content = b.content
	c.build = builder{}
	if len(c.watched) > 0 {
		c.checkWatches() // fewer bytes are waiting now
	}
	return packet, number, true
}

// putInFlight records that p elicits an ack, and decides whether it asks for one at once.
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
	if bulk && c.wantsAck() || !bulk && t < c.loss.othersUntil {
		*flags |= flagAckNow
	}
	p.prompt = *flags&flagAckNow != 0
}

// wantsAck reports whether a packet with bulk asks for an ack at once.
//
// One packet per sixteenth of the window does, but at most every second packet. A small
// window then opens as steadily as QUIC's, whose receivers acknowledge every second packet
// (RFC 9000, section 13.2.2). QUIC's window grows only while nearly all of it is in flight,
// and with one ack per eighth it grew half as fast.
//
// A packet also asks if the window is full and too few packets are in flight for the peer
// to ack them before its ack delay ends.
func (c *Conn) wantsAck() bool {
	c.sent.unasked++
	often := c.sent.unasked >= max(2, c.gate.Window(fullDatagram)/(16*fullDatagram))
	stuck := c.sent.flying < 2*ackEvery && !c.windowOpen()
	if !often && !stuck {
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

// idle is called when AppendPacket has nothing to send. Unless bulk waits for the window,
// the connection is then limited by the application (RFC 9002, section 7.8), which idle
// reports to the gate.
func (c *Conn) idle() {
	c.cork.flushing = false
	if lv := &c.levels[bulkLevel]; lv.fresh.len()+lv.resend.len() > 0 && !c.windowOpen() {
		return
	}
	c.gate.Limited(c.sent.inFlight)
}
