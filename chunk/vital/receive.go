package vital

import (
	"bytes"
	"errors"
	"time"
)

// halfSpace is half of the sequence space. A sequence up to halfSpace behind the last
// accepted one counts as already received, any other as new.
const halfSpace = 1 << (sequenceBits - 1)

// Receive handles a packet. It does not keep the packet. The error says why the
// connection has ended.
//
// A packet that is malformed, foreign or out of place is dropped and counted in Stats.
func (c *Conn) Receive(now time.Time, packet []byte) error {
	c.advanceClock(now)
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

// open returns a packet's payload. It returns an error if the token is wrong, or if the
// payload is not a complete sequence of chunks or a control message.
//
// A token in the header is checked before anything is decompressed. DDNet's token is
// inside the payload.
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

// cutToken removes DDNet's token from a payload. It returns an error if the token is wrong.
func (c *Conn) cutToken(payload []byte) ([]byte, error) {
	rest, token, err := CutToken(payload)
	if err != nil || token != c.cfg.Token {
		return nil, errToken
	}
	return rest, nil
}

// take handles a valid packet from the peer.
func (c *Conn) take(h PacketHeader, body []byte) {
	before := c.store.Oldest
	stale, ok := c.acknowledge(h.Ack)
	if !ok {
		c.stats.BadAck++
		return
	}
	c.lastReceived = c.now
	if stale {
		c.stats.StaleAcks++
	} else {
		c.peerNeedsResend = h.Resend || c.peerNeedsResend && c.store.Oldest == before
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

// acknowledge frees chunks that the peer has acknowledged.
//
// A packet that another one overtook acknowledges an older number, which is stale. ok is
// false if the number was never sent, or was sent too long ago.
func (c *Conn) acknowledge(ack int) (stale, ok bool) {
	acked := c.store.Oldest - 1
	ahead := (uint64(ack) - acked) & sequenceMask
	if ahead > c.sendNext-1-acked {
		behind := 1<<sequenceBits - ahead
		return true, behind <= halfSpace && behind <= acked
	}
	var newest unackedChunk
	for range ahead {
		newest = c.store.Take()
		c.storeData.free(newest.span)
	}
	if ahead > 0 {
		c.lastAcked = c.now
		c.measure(newest)
	}
	c.resendNext = max(c.resendNext, c.store.Oldest)
	c.resendEnd = max(c.resendEnd, c.resendNext)
	return false, true
}

// measure updates the round-trip time with the newest chunk that a packet acknowledges.
// Earlier acknowledgements may have been lost, so a sample counts as at most ResendAfter.
func (c *Conn) measure(v unackedChunk) {
	if v.resent {
		return // it is unknown which transmission was acknowledged
	}
	sample := min(c.now.Sub(v.last), c.cfg.ResendAfter)
	if c.rtt == 0 {
		c.rtt = sample
	} else {
		c.rtt += (sample - c.rtt) / 8
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

// deliver handles a received chunk. It accepts a chunk that is not vital, or the next vital
// one. A later vital chunk shows a gap, and the next packet asks for a resend.
//
// Chunks that are not vital may fill only half of the inbox. The other half is for vital ones.
func (c *Conn) deliver(chunk Chunk) {
	if chunk.Flags&Vital == 0 {
		halfFull := c.inbox.Len() >= c.cfg.ReceiveBytes/chunkShare/2 ||
			c.inboxData.used+len(chunk.Data) > c.cfg.ReceiveBytes/2
		if halfFull || !c.accept(chunk) {
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
		c.inboxFull = true
	case ahead == 0 || ahead >= halfSpace:
		c.stats.Duplicates++
		c.confirm(chunk.Flags)
	default:
		c.stats.Gaps++
		c.largestSeen = max(c.largestSeen, c.received+ahead)
		c.needResend = c.needResend || !c.inboxFull
	}
}

// confirm schedules an acknowledgement within AckAfter. A chunk that was resent is
// acknowledged at once, because its sender is waiting.
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
	s, ok := c.inboxData.put(chunk.Data)
	if !ok {
		return false
	}
	flags := chunk.Flags
	if c.cfg.Version != V06 {
		// The game reports Resend to the application in 0.6 only.
		flags &= Vital
	}
	last := c.inbox.Push(firstPlaces)
	*last = queuedChunk{span: s, flags: flags, sequence: chunk.Sequence}
	c.stats.Delivered++
	return true
}

// Next returns the next received chunk. Its Data is valid until the next call of Next.
// Chunks that arrived before the connection ended are still returned.
func (c *Conn) Next() (Chunk, bool) {
	c.inboxData.free(c.returned)
	c.returned = span{}
	roomy := c.inboxData.used < c.cfg.ReceiveBytes/2 && c.inbox.Len() < c.cfg.ReceiveBytes/chunkShare/2
	if c.inboxFull && roomy {
		c.inboxFull = false
		c.needResend = true
	}
	if c.inbox.Len() == 0 {
		return Chunk{}, false
	}
	next := c.inbox.Take()
	c.returned = next.span
	return Chunk{Header{next.flags, next.size, next.sequence}, c.inboxData.bytes(next.span)}, true
}
