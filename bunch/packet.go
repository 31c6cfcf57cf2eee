package bunch

import (
	"encoding/binary"
	"time"
)

const (
	minDatagram = maxHeaderBytes + maxBunchHeader + EntryBytes // 1,163: an entry always fits
	minPiece    = 16
	minFill     = 32 // the least room that is worth another piece
)

// builder is the packet being made.
type builder struct {
	buf     []byte
	start   int
	limit   int // len(buf) may grow to it
	bunches int
	bulk    bool // nothing but bulk in it
	fresh   bool // bunches that were never sent may join
	packet  *packet
}

func (b *builder) room() int { return b.limit - len(b.buf) }
func (b *builder) full() bool {
	return b.bunches == maxBunches || b.room() < 8
}

// AppendPacket appends the next packet, at most max bytes of which 1,163 must be allowed, and returns its number.
// Call it until ok is false: then there is nothing to send before NextTimeout or the next call of another method.
func (c *Conn) AppendPacket(now time.Time, buf []byte, max int) (packet []byte, number uint64, ok bool) {
	t := c.clock(now)
	c.settle()
	if c.err != nil || max < minDatagram {
		return buf, 0, false
	}
	if c.loss.probes > 0 && c.loss.ptos >= 2 {
		max = minDatagram // a path that shrank lets small probes through
	}
	ackDue := c.received.due(t) && (!c.corked || c.flushing || c.received.urgent)
	fresh := c.freshAllowed()
	content := c.hasContent(fresh)
	update := c.flow.update && (!c.corked || c.flushing)
	if !ackDue && !content && !c.mustPing() && !update {
		c.idle()
		return buf, 0, false
	}
	p := c.sent.add()
	if p == nil {
		return buf, 0, false
	}
	c.build = builder{buf: buf, start: len(buf), limit: len(buf) + max, bulk: true, fresh: fresh, packet: p}
	c.appendHeader(t, content)
	if content {
		c.fill()
	}
	if c.build.bunches == 0 && !ackDue && !c.mustPing() && !update {
		c.sent.next--
		c.idle()
		return buf, 0, false
	}
	return c.launch(t)
}

// mustPing reports whether a packet has to leave though it may carry no bunch.
func (c *Conn) mustPing() bool { return c.loss.probes > 0 || c.flow.probe }

// appendHeader writes header and acks; a packet with bunches leaves them the room of an entry.
func (c *Conn) appendHeader(t time.Duration, content bool) {
	b := &c.build
	number := c.sent.next - 1
	b.buf = append(b.buf, Protocol, 0)
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(number))
	if c.received.asking > 0 {
		room := b.room() - ackHeaderBytes - 8
		if content {
			room = maxHeaderBytes - packetHeaderBytes - ackHeaderBytes - 4
		}
		covered := false
		b.buf, covered = c.received.appendAcks(b.buf, t, room)
		b.buf[b.start+1] |= flagAcks
		if covered {
			b.packet.covers = c.received.next
		}
	}
	if c.flow.update {
		b.buf[b.start+1] |= flagLimit
		b.buf = appendVarint(b.buf, c.flow.kib())
		b.packet.limit = true
	}
}

// launch finishes the packet and records it.
func (c *Conn) launch(t time.Duration) (packet []byte, number uint64, ok bool) {
	b, p := &c.build, c.build.packet
	flags := &b.buf[b.start+1]
	p.at, p.size = t, len(b.buf)-b.start
	if *flags&flagAcks != 0 {
		c.received.sent(t)
	}
	if b.bunches == 0 {
		c.finishBare(flags)
	}
	if c.flow.probe {
		*flags |= flagAckNow
	}
	if b.bunches > 0 || *flags&(flagPing|flagLimit) != 0 {
		c.rate.sent(t, p, c.sent.inFlight)
		if c.sent.flying == 0 {
			c.loss.unanswered = t
		}
		p.bulk = b.bulk && b.bunches > 0
		c.sent.launched(p, t)
		c.received.acksOnly = 0
	}
	if c.loss.probes > 0 {
		*flags |= flagAckNow
		p.probe = true
		c.loss.probes--
		c.stats.ProbesSent++
	}
	c.flow.probe, c.flow.update = false, false
	c.flow.tell(*flags&flagLimit != 0)
	c.stats.PacketsSent++
	c.stats.BytesSent += uint64(p.size)
	packet, number = b.buf, c.sent.next-1
	c.trace("sent", number, p.size)
	c.build = builder{}
	return packet, number, true
}

// finishBare decides whether a packet without bunches asks for an ack.
func (c *Conn) finishBare(flags *byte) {
	c.received.acksOnly++
	if *flags&flagLimit == 0 && !c.mustPing() {
		c.stats.AcksOnlySent++
	}
	if c.mustPing() || c.received.acksOnly >= pingEvery {
		*flags |= flagPing
	}
}

// idle notes that nothing more could be sent; unless the window for bulk is why, the rate is limited by the application.
func (c *Conn) idle() {
	if c.corked {
		return
	}
	if lv := &c.levels[1+Bulk]; lv.fresh.len()+lv.resend.len() > 0 && !c.bulkOpen() {
		return
	}
	c.rate.limited(c.sent.inFlight)
}

// Unsent takes back the packet that AppendPacket returned last: the datagram never left, its bunches go back at once.
func (c *Conn) Unsent(number uint64) {
	if number+1 != c.sent.next {
		return
	}
	p := c.sent.get(number)
	for _, it := range p.items {
		c.giveBack(it)
	}
	for i := len(c.undo) - 1; i >= 0; i-- {
		u := c.undo[i]
		size := len(u.payload) - int(u.part)*EntryBytes
		if c.pushBack(u) {
			size = min(size, EntryBytes)
		}
		c.unreliables += size
		c.addQueued(u.channel, size)
		c.schedule(u.channel)
	}
	c.undo = c.undo[:0]
	if p.probe {
		c.loss.probes++
	}
	c.flow.update = c.flow.update || p.limit
	if p.covers > 0 {
		c.received.asking, c.received.deadline = max(1, c.received.asking), c.now
	}
	c.sent.landed(p, nothing)
	c.sent.next--
	c.stats.PacketsSent--
	c.stats.BytesSent -= uint64(p.size)
}

// pushBack returns an unreliable bunch to the head of its queue and reports whether its message is still there.
func (c *Conn) pushBack(u unsentDatagram) bool {
	q := &u.channel.unreliable
	if q.len() > 0 && u.parts() > 1 && q.peek().message == u.message && q.peek().delivery == u.delivery {
		q.peek().part = u.part
		return true
	}
	q.unpop(u.datagram)
	return false
}

// settle releases what Unsent would have needed.
func (c *Conn) settle() {
	for i, u := range c.undo {
		if int(u.part) == u.parts()-1 {
			c.blocks.put(u.payload)
		}
		c.undo[i] = unsentDatagram{}
	}
	c.undo = c.undo[:0]
}
