package vital

import "time"

// Messages of control packets.
const (
	controlKeepAlive = 0
	controlClose     = 4
)

// AppendPacket appends the next packet, of at most size bytes, and returns its number,
// counted from 1. ok is false if there is none now, or if size is less than a header with a
// control message (12 bytes). A chunk that does not fit into size is dropped if it is not
// vital. A vital one, and all after it, waits for a larger size; if none is passed, the
// connection ends with ErrNotAcked. So Config.MaxPacket should be at most the least size.
func (c *Conn) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	c.tick(now)
	switch {
	case c.err != nil || size < plainHeader+tokenBytes+5:
		return buf, 0, false
	case c.closing != nil:
		buf = c.appendClose(buf, size)
	case c.ready():
		buf = c.appendChunks(buf, size)
	case c.passed(c.spoke, c.cfg.KeepAlive):
		buf = c.appendControl(buf, controlKeepAlive, "")
	default:
		return buf, 0, false
	}
	c.spoke, c.ackAt = c.now, time.Time{}
	c.stats.Sent++
	return buf, c.stats.Sent, true
}

// ready reports whether a packet with chunks, an acknowledgement or a request is due.
func (c *Conn) ready() bool {
	return c.due > 0 || c.again < c.until || c.mayAsk() ||
		!c.ackAt.IsZero() && !c.now.Before(c.ackAt) ||
		c.queue.Len() > 0 && c.passed(c.spoke, c.cfg.FlushAfter)
}

// mayAsk reports whether a request for a resend may be sent now, and is wanted.
func (c *Conn) mayAsk() bool { return c.ask && !c.now.Before(c.askAt) }

// header returns the header of the next packet, with the acknowledgement.
func (c *Conn) header() PacketHeader {
	h := c.cfg.header()
	h.Ack = int(c.received & sequenceMask)
	return h
}

// appendControl appends a packet with a control message and, if it is not empty, its text.
func (c *Conn) appendControl(buf []byte, message byte, text string) []byte {
	h := c.header()
	h.Control = true
	body := append(c.scratch[:0], message)
	if text != "" {
		body = append(append(body, text...), 0)
	}
	return c.appendPacket(buf, h, body)
}

// appendPacket appends a packet with the given payload, and keeps the payload's
// memory for the next packet.
func (c *Conn) appendPacket(buf []byte, h PacketHeader, payload []byte) []byte {
	if c.cfg.DDNet {
		payload = AppendToken(payload, c.cfg.PeerToken)
	}
	c.scratch = payload
	start := len(buf)
	buf = appendPacket(buf, c.cfg.Version, h, payload, c.cfg.Plain)
	if len(buf)-start < h.size(c.cfg.Version)+len(payload) {
		c.stats.Compressed++
	}
	return buf
}

// appendClose appends the close message, and ends the connection.
func (c *Conn) appendClose(buf []byte, size int) []byte {
	room := min(size, c.cfg.MaxPacket) - c.header().size(c.cfg.Version) - c.cfg.behind() - 2 // the message, and the zero after the reason
	c.err = c.closing
	return c.appendControl(buf, controlClose, c.closing.Reason[:min(room, len(c.closing.Reason))])
}

// appendChunks builds a packet: first chunks that are sent again, then queued ones, as many as fit.
func (c *Conn) appendChunks(buf []byte, size int) []byte {
	h := c.header()
	if c.mayAsk() {
		h.Resend, c.ask = true, false
		c.askAt, c.againAt = c.now.Add(c.interval()), c.now.Add(askAgain*c.interval())
		c.stats.Asked++
	}
	p := &packing{buf: c.scratch[:0], limit: c.cfg.payload(size), reserve: c.cfg.reserve(), version: c.cfg.Version}
	if c.packResends(p) {
		c.packQueue(p)
	}
	h.Chunks = p.chunks
	return c.appendPacket(buf, h, p.buf)
}

// A packing is a packet under construction.
type packing struct {
	buf            []byte
	limit, reserve int
	chunks         int
	version        Version
}

// add appends a chunk if it fits.
func (p *packing) add(h Header, data []byte) bool {
	if p.chunks == maxChunks || len(p.buf)+p.reserve+len(data) > p.limit {
		return false
	}
	h.Size = len(data)
	p.buf = append(AppendHeader(p.buf, p.version, h), data...)
	p.chunks++
	return true
}

// packResends adds chunks that must be sent again, and reports whether all of them were packed.
func (c *Conn) packResends(p *packing) bool {
	for ; c.again < c.until; c.again++ {
		if !c.addVital(p, c.again, Vital|Resend) {
			if p.chunks == 0 { // the chunk waits for a larger packet, or for the timer
				c.stats.TooBig++
				c.mark(c.again)
				c.again = c.until
			}
			return false
		}
		c.stats.Resent++
	}
	return true
}

// packQueue moves chunks from the head of the queue to the packet.
func (c *Conn) packQueue(p *packing) {
	for c.queue.Len() > 0 {
		next := c.queue.At(c.queue.Oldest)
		vital := next.flags == Vital
		fits := false
		if vital {
			fits = c.addVital(p, c.fresh, Vital)
		} else {
			fits = p.add(Header{Sequence: -1}, c.pending.bytes(next.span))
		}
		if !fits && p.chunks > 0 {
			return
		}
		if !fits {
			c.stats.TooBig++
		}
		if !fits && vital { // the chunk waits for a larger packet
			c.mark(c.fresh)
			c.due = 0
			return
		}
		c.shift(fits)
	}
}

// shift removes the head of the queue, which was sent or dropped.
func (c *Conn) shift(sent bool) {
	next := c.queue.Take()
	c.due = max(0, c.due-1)
	if sent {
		c.stats.Chunks++
	}
	if next.flags != Vital {
		c.pending.free(next.span)
		return
	}
	c.fresh++
}

// addVital appends the chunk with a sequence from the store, if it fits.
func (c *Conn) addVital(p *packing, sequence uint64, flags Flags) bool {
	r := c.store.At(sequence)
	if !p.add(Header{Flags: flags, Sequence: int(sequence & sequenceMask)}, c.kept.bytes(r.span)) {
		return false
	}
	r.resent = flags&Resend != 0
	c.mark(sequence)
	return true
}

// mark records that a vital chunk was sent now, or could not be.
func (c *Conn) mark(sequence uint64) {
	r := c.store.At(sequence)
	r.last = c.now
	if r.first.IsZero() {
		r.first = c.now
	}
}
