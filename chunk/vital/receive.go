package vital

import (
	"bytes"
	"errors"
	"time"
)

// halfSpace is half of all sequences: one that is up to halfSpace behind counts
// as received before, any other as new.
const halfSpace = 1 << (sequenceBits - 1)

// Receive handles a packet, and does not keep it. A packet that cannot be parsed, is foreign
// or out of place is dropped and counted. The error says why the connection has ended.
func (c *Conn) Receive(now time.Time, packet []byte) error {
	c.tick(now)
	if c.err != nil {
		return c.err
	}
	c.stats.Received++
	h, n, err := ParsePacketHeader(c.cfg.Version, packet)
	body := packet[n:]
	if err == nil {
		body, err = c.open(h, body)
	}
	switch {
	case err == nil:
		c.take(h, body)
	case errors.Is(err, ErrConnless):
		c.stats.Ignored++
	case err == errToken:
		c.stats.WrongToken++
	default:
		c.stats.Malformed++
	}
	return c.err
}

// open returns the payload of a packet if its token is right and its chunks are complete. A
// token in the header is checked before anything is decompressed; DDNet's is inside the payload.
func (c *Conn) open(h PacketHeader, payload []byte) ([]byte, error) {
	if h.Tokened != c.cfg.header().Tokened || h.Tokened && h.Token != c.cfg.Token {
		return nil, errToken
	}
	payload, err := h.decompressed(c.cfg.Version, payload, c.scratch)
	if err == nil && c.cfg.DDNet {
		payload, err = c.cutToken(payload)
	}
	switch {
	case err != nil:
		return nil, err
	case h.Control:
		return payload, h.checkControl(payload)
	}
	return payload, checkChunks(c.cfg.Version, payload, h.Chunks)
}

// cutToken removes DDNet's token, and returns an error if it is wrong.
func (c *Conn) cutToken(payload []byte) ([]byte, error) {
	rest, token, err := CutToken(payload)
	if err != nil || token != c.cfg.Token {
		return nil, errToken
	}
	return rest, nil
}

// take handles a valid packet of the peer.
func (c *Conn) take(h PacketHeader, body []byte) {
	before := c.store.Oldest
	stale, ok := c.acknowledge(h.Ack)
	if !ok {
		c.stats.BadAck++
		return
	}
	c.heard = c.now
	if stale {
		c.stats.StaleAcks++
	} else {
		c.asked = h.Resend || c.asked && c.store.Oldest == before
	}
	if h.Control {
		c.control(body)
		return
	}
	c.stats.Taken++
	for range h.Chunks {
		chunk, rest, _ := ParseChunk(c.cfg.Version, body)
		c.deliver(chunk)
		body = rest
	}
}

// acknowledge frees chunks that the peer has acknowledged. A packet that another has overtaken has
// an older number, which is stale. ok is false for a number that was never sent, or not lately.
func (c *Conn) acknowledge(ack int) (stale, ok bool) {
	acked := c.store.Oldest - 1
	ahead := (uint64(ack) - acked) & sequenceMask
	if ahead > c.fresh-1-acked {
		behind := 1<<sequenceBits - ahead
		return true, behind <= halfSpace && behind <= acked
	}
	var newest record
	for range ahead {
		newest = c.store.Take()
		c.kept.free(newest.span)
	}
	if ahead > 0 {
		c.moved = c.now
		c.measure(newest)
	}
	c.again = max(c.again, c.store.Oldest)
	c.until = max(c.until, c.again)
	return false, true
}

// measure updates the round trip with the newest chunk that a packet acknowledges. Earlier
// acknowledgements may have been lost, so a sample counts for at most ResendAfter.
func (c *Conn) measure(r record) {
	took := min(c.now.Sub(r.last), c.cfg.ResendAfter)
	switch {
	case r.resent:
	case c.rtt == 0:
		c.rtt = took
	default:
		c.rtt += (took - c.rtt) / 8
	}
}

// control handles a control message.
func (c *Conn) control(body []byte) {
	switch body[0] {
	case controlKeepAlive:
		c.stats.Taken++
	case controlClose:
		c.stats.Taken++
		reason, _, _ := bytes.Cut(body[1:], []byte{0})
		c.err = &CloseError{Reason: string(reason[:min(len(reason), maxReason)]), Remote: true}
	default:
		c.stats.Ignored++
	}
}

// deliver handles a chunk: one that is not vital, or the next vital one. A later
// vital one makes the next packet ask for a resend. Chunks that are not vital may
// fill half of the inbox and its memory, so that there is room for vital ones.
func (c *Conn) deliver(chunk Chunk) {
	if chunk.Flags&Vital == 0 {
		if c.inbox.Len() >= c.cfg.ReceiveBytes/chunkShare/2 || c.arrived.used+len(chunk.Data) > c.cfg.ReceiveBytes/2 || !c.accept(chunk) {
			c.stats.Full++
		}
		return
	}
	ahead := (uint64(chunk.Sequence) - c.received) & sequenceMask
	switch {
	case ahead == 1 && c.accept(chunk):
		c.received++
		c.confirm(chunk.Flags)
	case ahead == 1:
		c.stats.Full++
		c.starved = true
	case ahead == 0 || ahead >= halfSpace:
		c.stats.Duplicates++
		c.confirm(chunk.Flags)
	default:
		c.stats.Gaps++
		c.seen = max(c.seen, c.received+ahead)
		c.ask = c.ask || !c.starved
	}
}

// confirm makes sure that an acknowledgement is sent within AckAfter, or at
// once for a chunk that was sent again, because its sender is waiting.
func (c *Conn) confirm(flags Flags) {
	switch {
	case c.cfg.AckAfter < 0:
	case flags&Resend != 0:
		c.ackAt = c.now
	case c.ackAt.IsZero():
		c.ackAt = c.now.Add(c.cfg.AckAfter)
	}
}

// accept makes a chunk available to Next. It returns false if there is no room.
func (c *Conn) accept(chunk Chunk) bool {
	if c.inbox.Len() >= c.cfg.ReceiveBytes/chunkShare {
		return false
	}
	s, ok := c.arrived.put(chunk.Data)
	if !ok {
		return false
	}
	flags := chunk.Flags
	if c.cfg.Version != V06 { // as in the game, which reports Resend to the application in 0.6 only
		flags &= Vital
	}
	*c.inbox.Push(firstPlaces) = item{span: s, flags: flags, sequence: chunk.Sequence}
	c.stats.Delivered++
	return true
}

// Next returns the next received chunk. Its Data is valid until the next call
// of Next. Chunks that arrived before the connection ended can still be taken.
func (c *Conn) Next() (Chunk, bool) {
	c.arrived.free(c.handed)
	c.handed = span{}
	if c.starved && c.arrived.used < c.cfg.ReceiveBytes/2 && c.inbox.Len() < c.cfg.ReceiveBytes/chunkShare/2 {
		c.starved, c.ask = false, true
	}
	if c.inbox.Len() == 0 {
		return Chunk{}, false
	}
	next := c.inbox.Take()
	c.handed = next.span
	return Chunk{Header{next.flags, next.size, next.sequence}, c.arrived.bytes(next.span)}, true
}
