package vital

import (
	"bytes"
	"errors"
	"time"
)

// halfSpace is half of the sequence space. We take a sequence for one that we have already received
// if it is up to halfSpace behind the last accepted one, and for a new one otherwise.
const halfSpace = 1 << (sequenceBits - 1)

// Receive handles a packet, which it does not keep. The error says why the connection has ended.
//
// A packet that is malformed, foreign or out of place is no error. It is dropped and counted in
// Stats.
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

// open returns a packet's payload. It returns an error if the token is wrong, or if the payload is
// neither a control message nor a complete sequence of chunks.
//
// A token in the header is checked before we go to the trouble of decompressing anything. DDNet's
// token is inside the payload and has to wait until then.
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
	before := c.store.acked()
	stale, ok := c.acknowledge(h.Ack)
	if !ok {
		c.stats.BadAck++
		return
	}
	c.lastReceived = c.now
	if stale {
		c.stats.StaleAcks++ // and its Resend is just as stale
	} else {
		// Keep an older request only if nothing has been acknowledged since.
		c.peerNeedsResend = h.Resend || c.peerNeedsResend && c.store.acked() == before
	}
	if h.Control {
		c.handleControl(body)
		return
	}
	c.stats.Taken++
	for range h.Chunks {
		chunk, rest, _ := ParseChunk(c.cfg.Version, body)
		c.deliver(chunk)
		body = rest
	}
}

// acknowledge frees the chunks that the peer has acknowledged.
//
// A packet that was overtaken by another one acknowledges an older sequence, which is stale. ok is
// false if the sequence was never sent, or was sent too long ago.
func (c *Conn) acknowledge(ack int) (stale, ok bool) {
	acked := c.store.acked()
	ahead := (uint64(ack) - acked) & sequenceMask
	if ahead > c.store.sendNext-1-acked {
		behind := 1<<sequenceBits - ahead
		return true, behind <= halfSpace && behind <= acked
	}
	newest := c.store.ack(ahead)
	if ahead > 0 {
		c.lastAcked = c.now
		c.measure(newest)
	}
	return false, true
}

// measure updates the round-trip time from the newest chunk that a packet acknowledges. We don't
// let a sample exceed ResendAfter, because earlier acknowledgements may have been lost.
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

// handleControl handles a control message.
func (c *Conn) handleControl(body []byte) {
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

// deliver handles a received chunk. It accepts the next vital one, and any that isn't vital. If a
// vital chunk is further ahead, another one was lost, and the next packet asks for a resend.
//
// Chunks that aren't vital may fill only half of the inbox, because vital ones need the other.
func (c *Conn) deliver(chunk Chunk) {
	if chunk.Flags&Vital == 0 {
		if c.inbox.halfFull(len(chunk.Data)) || !c.accept(chunk) {
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
		// There's no room. Next asks for the chunk again when there is.
		c.stats.Full++
		c.inbox.full = true
	case ahead == 0 || ahead >= halfSpace:
		c.stats.Duplicates++
		c.confirm(chunk.Flags)
	default:
		c.stats.Gaps++
		c.largestSeen = max(c.largestSeen, c.received+ahead)
		c.needResend = c.needResend || !c.inbox.full
	}
}

// confirm makes sure that a chunk is acknowledged within AckAfter, or at once if it was resent,
// because its sender is waiting.
func (c *Conn) confirm(flags Flags) {
	switch {
	case c.cfg.AckAfter < 0:
		// The next packet acknowledges it, whenever that is.
	case flags&Resend != 0:
		c.ackAt = c.now
	case c.ackAt.IsZero():
		c.ackAt = c.now.Add(c.cfg.AckAfter)
	}
}

// accept makes a chunk available to Next. It returns false if there is no room.
func (c *Conn) accept(chunk Chunk) bool {
	if c.cfg.Version != V06 {
		// The game reports Resend to the application in 0.6 only.
		chunk.Flags &= Vital
	}
	if !c.inbox.put(chunk) {
		return false
	}
	c.stats.Delivered++
	return true
}

// Next returns the next received chunk, whose Data is valid until the next call of Next. It still
// returns chunks that arrived before the connection ended.
func (c *Conn) Next() (Chunk, bool) {
	if c.inbox.release() {
		c.needResend = true
	}
	return c.inbox.take()
}
