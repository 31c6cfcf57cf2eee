package sealed

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

// A purpose is the reason for building a packet.
type purpose uint8

const (
	nothing    purpose = iota // no packet may be sent now
	forProbe                  // make the peer send an ack; carries payloads if there are any
	forTrain                  // one of the padded packets, sent back to back, that measure the path's rate
	forSize                   // padding, to probe whether the path takes packets of up to MaxPacket bytes
	forJumbo                  // padding, to probe whether the path takes JumboPacket bytes
	forPayload                // bulk and play, if the pacer allows it
	forPlay                   // play alone, which need not wait for the pacer
	forReport                 // feedback alone
)

// AppendPacket builds and seals the next packet. It may be a jumbo packet if size is large
// enough for one.
func (s *Session) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	packet, number, ok = s.Build(now, buf, size, size >= JumboPacket)
	if !ok {
		return packet, 0, false
	}
	if err := s.Seal(packet, number); err != nil {
		s.end(err)
		return buf, 0, false
	}
	return packet, number, true
}

// Seal seals a packet from Build in place. It shares no state with other methods, so the
// caller need not hold the lock. It must be called for one packet at a time, in the order
// of their numbers.
func (s *Session) Seal(packet []byte, number uint64) error {
	if _, err := s.sealer.seal(packet[:len(packet)-tagBytes], number); err != nil {
		return &Error{Reason: err.Error()}
	}
	return nil
}

// Build builds the next packet, of at most size bytes, if one may be sent now. It writes
// from the beginning of buf. The packet counts as sent once Build returns. The caller must
// Seal it before sending it.
//
// If jumbo is true, buf has room for JumboPacket bytes. The packet may then be that large
// if the path takes it.
func (s *Session) Build(now time.Time, buf []byte, size int, jumbo bool) (packet []byte, number uint64, ok bool) {
	t := s.tick(now)
	size = min(size, MaxPacket)
	if size < Overhead+dataHeader+minFeedback {
		return buf, 0, false
	}
	for {
		why := s.next(t, size, jumbo)
		if why == nothing {
			return buf, 0, false
		}
		packet, number, ok = s.build(t, why, buf, s.limit(why, size, jumbo))
		if ok || s.state == Closed {
			return packet, number, ok
		}
	}
}

// limit returns the maximum size of a packet with the given purpose. allowed is the maximum
// that the owner allows. A probe is never larger than SafePacket. On a path that has
// shrunk, it then shows that smaller packets arrive.
func (s *Session) limit(why purpose, allowed int, jumbo bool) int {
	switch {
	case s.train.thin && (why == forTrain || why == forProbe && s.state == Opening):
		return thinPacket
	case why == forProbe:
		return min(allowed, SafePacket)
	case why == forSize:
		return allowed
	case why == forJumbo, why == forPayload && jumbo && s.mtu.takesJumbo():
		return JumboPacket
	}
	return s.mtu.limit(allowed)
}

// next returns the purpose of the packet to build now. allowed is the maximum size that the
// owner allows.
func (s *Session) next(t time.Duration, allowed int, jumbo bool) purpose {
	switch {
	case !s.started || s.state == Closed || s.records.Len() >= maxRecords:
		return nothing
	case s.hearing.probes > 0:
		return forProbe
	case s.state <= Open && s.train.left > 0:
		return forTrain
	case s.report.alone && s.mayReport() && s.report.due(t):
		return forReport
	case s.wants() && s.maySend(t):
		if s.mtu.probeDue(t, allowed) {
			return forSize
		}
		if jumbo && s.bulkInFlight() > 0 && s.mtu.jumbo.probeDue(t) {
			return forJumbo
		}
		return forPayload
	case s.wantsPlay():
		return forPlay
	case s.mayReport() && s.report.due(t):
		return forReport
	}
	return nothing
}

// mayReport reports whether a packet with nothing but feedback may be sent.
func (s *Session) mayReport() bool { return s.records.silent < silentRecords }

// wants reports whether the source may have a payload to send as soon as the pacer allows
// it.
func (s *Session) wants() bool {
	return s.state == Open && !s.supply.empty && !s.train.holds() &&
		s.records.Len() < maxRecords-sparedRecords
}

// minPlay is the number of packets of play that may always be in flight without waiting for
// the pacer.
const minPlay = 4

// wantsPlay reports whether play may be sent although the pacer does not allow it. It may
// while play in flight is below playBound, which is half of the window.
//
// More play than that waits for the pacer, as bulk does. Otherwise a flood of play would
// sustain a queue that no pause of the pacer drains.
func (s *Session) wantsPlay() bool {
	return s.state == Open && !s.supply.noPlay &&
		s.records.Len() < maxRecords-sparedRecords && s.records.play < s.playBound()
}

// playBound returns the bytes of play in flight from which play must wait for the pacer.
func (s *Session) playBound() int { return max(minPlay*s.playSize(), s.control.Window()/2) }

// playSize is size for a packet of play, which is never a jumbo packet.
func (s *Session) playSize() int { return min(s.size(), MaxPacket+overheadUDP) }

// wantsAckSoon reports whether a packet of play asks for feedback soon, as bulk does. It
// does if the packet after this one would not fit into playBound. After play has once
// filled that bound, it asks as soon as play takes half of it.
//
// Otherwise each flight of a flood would wait for the peer's ack delay
// (TestFloodOfPlayOnAShortPath, rpc.TestFloodOfPlayOverSealedPackets).
func (s *Session) wantsAckSoon() bool {
	bound := s.playBound()
	if s.supply.pressed {
		bound /= 2
	}
	return s.records.play+2*s.playSize() > bound
}

// asks reports whether the session could send a payload now if the source had one.
func (s *Session) asks() bool {
	return s.started && (s.wantsPlay() || s.wants() && s.maySend(s.now))
}

// size estimates the size on the wire of the next packet with a payload. It assumes that
// the packet will be as large as the last one.
func (s *Session) size() int {
	switch {
	case s.full == 0:
		return SafePacket + overheadUDP
	case s.mtu.takesJumbo():
		return s.full
	}
	return min(s.full, MaxPacket+overheadUDP)
}

// maySend reports whether the pacer allows a packet to be sent now.
func (s *Session) maySend(t time.Duration) bool {
	if s.control.State() == pace.Start {
		s.updateStart()
	}
	now := s.time(t)
	at, ok := s.control.Next(now, s.size(), s.records.bytes)
	return ok && !at.After(now)
}

// updateStart tells the controller, which must be in its Start, how many bytes are waiting
// and how many of the owner's sessions are in their Start as well. Bulk that fits into the
// first flight does not count as a start.
func (s *Session) updateStart() {
	waiting := s.source.Waiting()
	s.control.Waiting(waiting)
	if waiting > trainPackets*s.size() {
		s.starting.set(true)
	}
	s.control.Starters(s.starting.count(), s.bulkInFlight())
}

// build builds one packet. ok is false if the source has no payload for it.
func (s *Session) build(
	t time.Duration, why purpose, buf []byte, size int,
) (packet []byte, number uint64, ok bool) {
	number = s.records.Next
	if number == s.skips.next && why != forTrain {
		number++
	}
	if number >= maxNumber {
		s.end(&Error{Reason: "packet numbers are used up; a new carrier is needed"})
		return buf, 0, false
	}
	limit := size - tagBytes
	rec := record{sent: t, fate: silent}
	b := appendHeader(buf[:0], s.id, number)
	if b, ok = s.appendContent(t, why, number, b, limit, &rec); !ok {
		return buf, 0, false
	}
	limit = rec.fits(limit)
	// Feedback that is not yet due shares a packet of play, if there is room.
	shares := rec.payloads > 0 && !rec.bulk && s.report.waits() && limit-len(b) >= minFeedback
	if why == forReport || shares || why != forTrain && s.report.due(t) {
		b = s.appendReport(t, b, limit, why, &rec)
	}
	packet = slices.Grow(b, tagBytes)[:len(b)+tagBytes]
	s.sent(t, packet, number, rec)
	return packet, number, true
}

// appendContent appends the content for the packet's purpose, except feedback. ok is false
// if the source has no payload, which appendContent records in supply.
func (s *Session) appendContent(
	t time.Duration, why purpose, number uint64, b []byte, limit int, rec *record,
) (_ []byte, ok bool) {
	switch why {
	case forProbe:
		return s.appendProbe(t, b, limit, rec), true
	case forTrain:
		return s.appendTrain(t, b, limit, rec), true
	case forSize:
		s.mtu.probeSent(t)
		return s.appendSize(b, limit, rec), true
	case forJumbo:
		s.mtu.jumbo.probeSent(number)
		return s.appendSize(b, limit, rec), true
	case forPayload:
		b = s.appendPayloads(t, b, Room{Max: limit, Bulk: true}, rec)
		if rec.payloads == 0 {
			s.supply = supply{empty: true, noPlay: true}
			s.control.Limited(s.records.bytes)
			return b, false
		}
	case forPlay:
		b = s.appendPayloads(t, b, Room{Max: limit}, rec)
		if rec.payloads == 0 {
			s.supply.noPlay = true
			s.supply.pressed = false
			return b, false
		}
	}
	return b, true
}

// appendProbe appends a ping. While the carrier opens, the packet is padded to limit, a
// size that every path takes. The size that QUIC found earlier may be too large by now.
// Once the carrier is open, the packet carries payloads if there are any.
func (s *Session) appendProbe(t time.Duration, b []byte, limit int, rec *record) []byte {
	s.hearing.probes--
	b = append(b, framePing)
	rec.fate = flying
	switch {
	case s.state == Opening:
		if !s.report.due(t) {
			b = pad(b, limit)
		}
	case s.wants():
		b = s.appendPayloads(t, b, Room{Max: limit, Bulk: true}, rec)
	}
	return b
}

// appendTrain appends a packet of the train, padded to limit. Feedback is included if it is due.
func (s *Session) appendTrain(t time.Duration, b []byte, limit int, rec *record) []byte {
	s.train.left--
	s.train.open++
	s.train.sent = true
	b = append(b, frameTrain, byte(s.train.left))
	rec.fate = flying
	rec.train = true
	if s.report.due(t) {
		b = s.appendReport(t, b, limit, forTrain, rec)
	}
	return pad(b, limit)
}

// appendSize appends a padded ping, to probe whether the path takes a packet of that size.
// The packet carries nothing that would have to be sent again.
func (s *Session) appendSize(b []byte, limit int, rec *record) []byte {
	rec.fate = flying
	return pad(append(b, framePing), limit)
}

// pad fills the rest of a packet with framePadding, which is 0. No frame may follow it.
func pad(b []byte, limit int) []byte {
	return append(b, make([]byte, max(limit-len(b), 0))...)
}

// appendPayloads appends payloads until the source has none that fits. The frames may take
// room.Max bytes, or without bulk the bytes that fit into MaxPacket.
func (s *Session) appendPayloads(t time.Duration, b []byte, room Room, rec *record) []byte {
	for rec.payloads < maxPayloads && rec.fits(room.Max)-len(b) >= minRoom {
		head := len(b)
		free := rec.fits(room.Max) - head - dataHeader
		b = append(b, framePlay, 0, 0)
		out, token, content, ok := s.source.AppendPayload(s.time(t), b, Room{Max: free, Bulk: room.Bulk})
		if !ok {
			return b[:head]
		}
		n := len(out) - len(b)
		if n < 1 || n > free {
			panic(fmt.Sprintf("sealed: a source appended a payload of %d bytes, its limits were 1 and %d", n, free))
		}
		if content.Play {
			s.control.Played(s.time(t))
			room.Max = min(room.Max, MaxPacket-tagBytes) // other play would wait for the rest of a jumbo packet
		}
		rec.bulk = rec.bulk || content.Bulk
		if content.Bulk || s.wantsAckSoon() {
			out[head] = frameData
		}
		binary.BigEndian.PutUint16(out[head+1:], uint16(n))
		b = out
		rec.tokens[rec.payloads] = token
		rec.payloads++
		rec.fate = flying
		rec.paced = true
	}
	return b
}

// appendReport appends feedback if it fits. Every pingAfter-th packet with nothing else
// also carries a ping, which asks for an ack.
func (s *Session) appendReport(t time.Duration, b []byte, limit int, why purpose, rec *record) []byte {
	bare := why == forReport && s.report.bare+1 >= pingAfter
	if bare {
		b = append(b, framePing)
		rec.fate = flying
	}
	if limit-len(b) < minFeedback {
		s.report.alone = true
		return b
	}
	s.report.pace(s.rtt())
	rec.covers = s.report.fill(t, &s.frame.feedback, &s.opener.window, limit-len(b))
	s.stats.Feedbacks++
	if rec.fate == flying {
		s.report.bare = 0
	} else {
		s.report.bare++
	}
	return s.frame.feedback.append(b)
}

// sent records a packet that was built and the number skipped before it, if any.
func (s *Session) sent(t time.Duration, packet []byte, number uint64, rec record) {
	for s.records.Next < number {
		s.records.push(record{fate: skipped, sent: t, until: t + silentPTOs*s.pto()})
	}
	if number >= s.skips.next {
		s.skips.draw(number)
	}
	rec.size = uint16(len(packet) + overheadUDP)
	rec.until = t + silentPTOs*s.pto()
	if rec.paced {
		s.full = int(rec.size)
		if s.train.holds() {
			// Bulk waits for the train's result, so play alone cannot show the path's rate.
			s.control.Limited(s.records.bytes + int(rec.size))
		}
		rec.sample = s.control.Sent(s.time(t), int(rec.size), s.records.bytes)
	}
	if rec.fate == flying {
		s.hearing.ask(t, rec.payloads > 0 && !rec.bulk, s.records.flying == 0 && s.state == Open)
	}
	s.records.push(rec)
	s.supply.pressed = s.supply.pressed || s.records.play > 0 && s.records.play >= s.playBound()
	if s.config.Rate != nil {
		s.config.Rate.Spend(s.time(t), len(packet))
	}
	s.stats.Sent++
	s.stats.SentBytes += uint64(len(packet))
}
