package vital

import "time"

// Messages of control packets.
const (
	controlKeepAlive = 0
	controlClose     = 4
)

// AppendPacket appends the next packet to buf and returns its number, counted from 1. The packet
// has at most size bytes. ok is false if there is nothing to send now, or if size is less than a
// header with a control message (12 bytes).
//
// If a chunk does not fit into size at all, it is dropped unless it is vital. A vital one waits for
// a larger size, and so do all chunks after it, until the connection ends with ErrNotAcked.
// Config.MaxPacket should therefore be no larger than the smallest size that will be passed.
func (c *Conn) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	c.advanceClock(now)
	switch {
	case c.err != nil || size < plainHeader+tokenBytes+5:
		return buf, 0, false
	case c.closing != nil:
		buf = c.appendClose(buf, size)
	case c.ready():
		buf = c.appendChunks(buf, size)
	case c.expired(c.lastSent, c.cfg.KeepAlive):
		buf = c.appendControl(buf, controlKeepAlive, "")
	default:
		return buf, 0, false
	}
	c.lastSent = c.now
	c.ackAt = time.Time{} // any packet acknowledges what we have received
	c.stats.Sent++
	return buf, c.stats.Sent, true
}

// ready reports whether a packet with chunks, an acknowledgement or a request is due.
func (c *Conn) ready() bool {
	chunksDue := c.queue.due > 0 || c.queue.chunks.Len() > 0 && c.expired(c.lastSent, c.cfg.FlushAfter)
	ackDue := !c.ackAt.IsZero() && !c.now.Before(c.ackAt)
	return chunksDue || c.store.mustResend() || ackDue || c.requestDue()
}

// requestDue reports whether the next packet must ask the peer for a resend.
func (c *Conn) requestDue() bool { return c.needResend && !c.now.Before(c.requestAt) }

// header returns the header of the next packet, with the acknowledgement filled in.
func (c *Conn) header() PacketHeader {
	h := c.cfg.header()
	h.Ack = int(c.received & sequenceMask)
	return h
}

// appendControl appends a packet with a control message and its text, if it has any.
func (c *Conn) appendControl(buf []byte, message byte, text string) []byte {
	h := c.header()
	h.Control = true
	body := append(c.scratch[:0], message)
	if text != "" {
		body = append(append(body, text...), 0)
	}
	return c.appendPacket(buf, h, body)
}

// appendPacket appends a packet with the given payload, whose memory it keeps for the next one.
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

// appendClose appends the close message and ends the connection.
func (c *Conn) appendClose(buf []byte, size int) []byte {
	const framing = 2 // the message, and the zero byte after the reason
	room := min(size, c.cfg.MaxPacket) - c.header().size(c.cfg.Version) - c.cfg.trailer() - framing
	c.err = c.closing
	return c.appendControl(buf, controlClose, shorten(c.closing.Reason, room))
}

// appendChunks appends a packet with as many chunks as fit, first those to resend and then queued
// ones.
func (c *Conn) appendChunks(buf []byte, size int) []byte {
	h := c.header()
	if c.requestDue() {
		h.Resend = true
		c.needResend = false
		c.requestAt = c.now.Add(c.requestInterval())
		c.repeatAt = c.now.Add(repeatAfter * c.requestInterval())
		c.stats.Asked++
	}
	p := &packing{
		buf:     c.scratch[:0],
		limit:   c.cfg.payload(size),
		reserve: c.cfg.reserve(),
		version: c.cfg.Version,
	}
	if c.packResends(p) {
		c.packQueue(p)
	}
	h.Chunks = p.chunks
	return c.appendPacket(buf, h, p.buf)
}

// A packing is a packet under construction.
type packing struct {
	buf     []byte
	limit   int // maximum size of buf
	reserve int // room that a chunk's header needs (Config.reserve)
	chunks  int // number of chunks in buf
	version Version
}

// add appends a chunk to the packet. It returns false if the chunk does not fit.
func (p *packing) add(h Header, data []byte) bool {
	if p.chunks == maxChunks || len(p.buf)+p.reserve+len(data) > p.limit {
		return false
	}
	h.Size = len(data)
	p.buf = append(AppendHeader(p.buf, p.version, h), data...)
	p.chunks++
	return true
}

// packResends adds the chunks that must be resent. It returns false if not all of them fit.
func (c *Conn) packResends(p *packing) bool {
	s := &c.store
	for ; s.mustResend(); s.resendNext++ {
		if c.addVital(p, s.resendNext, Vital|Resend) {
			c.stats.Resent++
			continue
		}
		if p.chunks == 0 {
			// The chunk does not fit by itself. It waits for the resend timer.
			c.stats.TooBig++
			s.markSent(s.resendNext, c.now)
			s.resendNext = s.resendEnd
		}
		return false
	}
	return true
}

// packQueue moves chunks from the head of the queue to the packet for as long as they fit.
func (c *Conn) packQueue(p *packing) {
	for c.queue.chunks.Len() > 0 {
		next := c.queue.chunks.At(c.queue.chunks.Oldest)
		if c.addQueued(p, next) {
			c.stats.Chunks++
			c.dequeue()
			continue
		}
		if p.chunks > 0 {
			return // the packet is full
		}

		// The chunk does not fit by itself. A vital one waits for a larger packet.
		c.stats.TooBig++
		if next.flags == Vital {
			c.store.markSent(c.store.sendNext, c.now)
			c.queue.due = 0
			return
		}
		c.dequeue()
	}
}

// addQueued adds the chunk at the head of the queue to the packet. It returns false if the
// chunk does not fit.
func (c *Conn) addQueued(p *packing, next *queuedChunk) bool {
	if next.flags == Vital {
		return c.addVital(p, c.store.sendNext, Vital)
	}
	return p.add(Header{Sequence: -1}, c.queue.data.bytes(next.span))
}

// dequeue removes the head of the queue, because it was sent or is being dropped.
func (c *Conn) dequeue() {
	if c.queue.take().flags == Vital {
		c.store.sendNext++
	}
}

// addVital adds to the packet the vital chunk with the given sequence number. It returns false if
// the chunk does not fit.
func (c *Conn) addVital(p *packing, sequence uint64, flags Flags) bool {
	v := c.store.chunks.At(sequence)
	if !p.add(Header{Flags: flags, Sequence: int(sequence & sequenceMask)}, c.store.data.bytes(v.span)) {
		return false
	}
	v.resent = flags&Resend != 0
	c.store.markSent(sequence, c.now)
	return true
}
