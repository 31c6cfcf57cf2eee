package sealed

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

// A draft is a packet that's being built.
type draft struct {
	why    purpose
	now    time.Duration
	number uint64
	bytes  []byte // the header and the frames so far
	limit  int    // maximum size of the header and frames, without the tag
	rec    record // of the packet, for when it's sent
}

// room returns the number of bytes that are free for frames.
func (d *draft) room() int { return d.limit - len(d.bytes) }

// ping appends a ping, which makes the packet ask for an ack.
func (d *draft) ping() {
	d.bytes = append(d.bytes, framePing)
	d.rec.fate = inFlight
}

// pad fills the rest of the packet with framePadding, which is 0, so no frame may follow.
func (d *draft) pad() { d.bytes = append(d.bytes, make([]byte, max(d.room(), 0))...) }

// AppendPacket builds and seals the next packet. If size is large enough, it may be a jumbo
// packet.
func (s *Session) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	packet, number, ok = s.Build(now, buf, size, size >= JumboPacket)
	if !ok {
		return packet, 0, false
	}
	if err := s.Seal(packet, number); err != nil {
		s.closeWith(err)
		return buf, 0, false
	}
	return packet, number, true
}

// Build builds the next packet if one may be sent now. The packet starts at the beginning of
// buf and has at most size bytes. If jumbo is true, buf must have room for JumboPacket bytes, and
// the packet may be that large if the path carries such packets.
//
// The packet counts as sent once Build returns, although the caller still has to seal it.
func (s *Session) Build(now time.Time, buf []byte, size int, jumbo bool) (packet []byte, number uint64, ok bool) {
	t := s.tick(now)
	size = min(size, FullPacket)
	if size < Overhead+dataHeader+minReport {
		return buf, 0, false
	}
	for {
		s.updateStart()
		why := s.next(t, size, jumbo)
		if why == nothing {
			return buf, 0, false
		}
		packet, number, ok = s.build(t, why, buf, s.limit(why, size, jumbo))
		if ok || s.state == Closed {
			return packet, number, ok
		}
		// The source had nothing. We won't ask for the same again until Wake, but there may be
		// another reason to send a packet.
	}
}

// Seal seals a packet from Build in place. It shares no state with the other methods, so the
// caller doesn't need the lock, but packets must be sealed one at a time and in order.
func (s *Session) Seal(packet []byte, number uint64) error {
	if _, err := s.sealer.seal(packet[:len(packet)-tagBytes], number); err != nil {
		return &Error{Reason: err.Error()}
	}
	return nil
}

// updateStart tells a controller in state Start how much is waiting to be sent, and how many of
// the owner's sessions are starting alongside this one.
func (s *Session) updateStart() {
	if !s.wantsPayload() || s.control.State() != pace.Start {
		return
	}
	waiting := s.source.Waiting()
	s.control.Waiting(waiting)
	if waiting > trainPackets*s.nextSize() {
		// Less than that fits into the first flight, so it doesn't count as a start.
		s.starting.set(true)
	}
	s.control.Starters(s.starting.count(), s.bulkInFlight())
}

// build builds a packet of at most size bytes. ok is false if the packet is for payloads but the
// source has none, or if the packet numbers are exhausted, in which case the session closes.
func (s *Session) build(
	t time.Duration, why purpose, buf []byte, size int,
) (packet []byte, number uint64, ok bool) {
	// Skip a number now and then, to catch a peer that acks packets it never received.
	number = s.records.Next
	if number == s.skips.next && why != forTrain {
		number++
	}
	if number >= maxNumber {
		s.closeWith(&Error{Reason: fmt.Sprintf("packet number has reached %d: open a new carrier", uint64(maxNumber))})
		return buf, 0, false
	}

	d := draft{
		why:    why,
		now:    t,
		number: number,
		bytes:  appendHeader(buf[:0], s.id, number),
		limit:  size - tagBytes,
		rec:    record{sent: t, fate: ackOptional},
	}
	if !s.appendContent(&d) {
		return buf, 0, false
	}

	// Add a report if it's due. (A packet of a train already has its report.) A report
	// that isn't due yet may piggyback on play, as long as that doesn't turn the packet
	// into a jumbo packet.
	d.limit = d.rec.frameLimit(d.limit)
	due := why == forReport || why != forTrain && s.reporter.due(t)
	isPlay := d.rec.payloads > 0 && !d.rec.bulk
	piggyback := isPlay && s.reporter.hasPending() && d.room() >= minReport
	if due || piggyback {
		s.appendReport(&d)
	}

	d.bytes = slices.Grow(d.bytes, tagBytes)[:len(d.bytes)+tagBytes] // Seal fills in the tag
	s.packetSent(&d)
	return d.bytes, number, true
}

// appendContent appends the content that the packet is built for, except a report. If the packet
// is for payloads but the source has none, appendContent records that in supply and returns
// false.
func (s *Session) appendContent(d *draft) (ok bool) {
	switch d.why {
	case forProbe:
		s.appendProbe(d)
	case forTrain:
		s.appendTrain(d)
	case forMTU, forJumbo:
		// There's no data in the packet, so nothing is lost if it's too large for the path.
		d.ping()
		d.pad()
	case forPayload:
		s.appendPayloads(d)
		if d.rec.payloads == 0 {
			s.supply.noteEmpty()
			// The source limits the rate now, not the path.
			s.control.Limited(s.records.bytesInFlight)
			return false
		}
	case forPlay:
		s.appendPayloads(d)
		if d.rec.payloads == 0 {
			s.supply.noteNoPlay()
			return false
		}
	}
	return true
}

// appendProbe appends a ping.
//
// While the carrier opens, the probe is padded to the limit, which is a size that every path
// supports, because the larger size that QUIC found earlier may no longer work. Once the carrier
// is open, the probe carries payloads instead, if there are any.
func (s *Session) appendProbe(d *draft) {
	d.ping()
	switch {
	case s.state == Opening:
		// Padding takes up the rest of the packet, so leave it out if a report must follow.
		if !s.reporter.due(d.now) {
			d.pad()
		}
	case s.wantsPayload():
		s.appendPayloads(d)
	}
}

// appendTrain appends the contents of one packet of the train that measures the path: the
// countdown, a report if one is due, and padding up to the limit.
func (s *Session) appendTrain(d *draft) {
	following := s.train.unsent - 1
	d.bytes = append(d.bytes, frameTrain, byte(following))
	d.rec.fate = inFlight
	d.rec.train = true
	if s.reporter.due(d.now) {
		s.appendReport(d)
	}
	d.pad()
}

// appendPayloads appends payloads until the source has none left that fits. If the packet is for
// play, it asks for play alone. A packet with bulk may grow up to its limit, but a packet without
// bulk can't exceed FullPacket.
func (s *Session) appendPayloads(d *draft) {
	rec := &d.rec
	limit := d.limit
	for rec.payloads < maxPayloads && rec.frameLimit(limit)-len(d.bytes) >= minRoom {
		// Write the frame's header first, and let the source append right behind it.
		head := len(d.bytes)
		free := rec.frameLimit(limit) - head - dataHeader
		b := append(d.bytes, framePlay, 0, 0)
		out, token, content, ok := s.source.AppendPayload(s.time(d.now), b, Room{Max: free, Bulk: d.why != forPlay})
		if !ok {
			return
		}
		n := len(out) - len(b)
		if n < 1 || n > free {
			panic(fmt.Sprintf("sealed: source appended a payload of %d bytes; the limits are 1 and %d", n, free))
		}
		if content.Play {
			s.control.Played(s.time(d.now))
			// Don't let the packet grow into a jumbo packet, which would make other play wait.
			limit = min(limit, FullPacket-tagBytes)
		}

		// Complete the header, now that the payload's kind and size are known.
		rec.bulk = rec.bulk || content.Bulk
		if content.Bulk || s.wantsAckSoon() {
			out[head] = frameData
		}
		binary.BigEndian.PutUint16(out[head+1:], uint16(n))
		d.bytes = out

		rec.tokens[rec.payloads] = token
		rec.payloads++
		rec.fate = inFlight
		rec.paced = true
	}
}

// appendReport appends a report if there's room for it, and otherwise has it sent in a packet of
// its own. Such a packet also asks for an ack every now and then.
func (s *Session) appendReport(d *draft) {
	if d.why == forReport && s.reporter.pingDue() {
		d.ping()
	}
	if d.room() < minReport {
		s.reporter.ownPacket = true
		return
	}
	s.reporter.pace(s.rtt())
	d.rec.knownBelow = s.reporter.fill(d.now, &s.frame.report, &s.opener.window, d.room())
	d.bytes = s.frame.report.appendFrame(d.bytes)
	s.stats.Feedbacks++
	s.reporter.noteBuilt(d.rec.fate == inFlight)
}

// packetSent records a packet that was built, and the number that was skipped before it, if any.
func (s *Session) packetSent(d *draft) {
	t := d.now
	for s.records.Next < d.number {
		s.records.push(record{fate: skipped, sent: t, expires: t + silentPTOs*s.pto()})
	}
	if d.number >= s.skips.next {
		s.skips.draw(d.number)
	}
	s.noteProbe(d)

	rec := &d.rec
	rec.size = uint16(len(d.bytes) + wireOverhead)
	rec.expires = t + silentPTOs*s.pto()
	if rec.paced {
		s.lastSize = int(rec.size)
		if s.train.holdsPayloads() {
			// Bulk is waiting for the train's result, and play alone can't show the path's rate.
			s.control.Limited(s.records.bytesInFlight + int(rec.size))
		}
		rec.sample = s.control.Sent(s.time(t), int(rec.size), s.records.bytesInFlight)
	}
	if rec.fate == inFlight {
		ackMayWait := rec.payloads > 0 && !rec.bulk
		wasIdle := s.records.packetsInFlight == 0 && s.state == Open
		s.liveness.ackAsked(t, ackMayWait, wasIdle)
	}
	s.records.push(*rec)

	if s.records.playInFlight > 0 && s.records.playInFlight >= s.playBound() {
		s.supply.flooded = true
	}
	if s.config.Rate != nil {
		s.config.Rate.Spend(s.time(t), len(d.bytes))
	}
	s.stats.Sent++
	s.stats.SentBytes += uint64(len(d.bytes))
}

// noteProbe records a packet that probes the peer or the path, so that it isn't repeated too soon.
func (s *Session) noteProbe(d *draft) {
	switch d.why {
	case forProbe:
		s.liveness.probeSent()
	case forTrain:
		s.train.packetSent()
	case forMTU:
		s.mtu.probeSent(d.now)
	case forJumbo:
		s.mtu.jumbo.probeSent(d.number)
	}
}
