package sealed

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

// purpose is why a packet is built.
type purpose uint8

const (
	nothing    purpose = iota // no packet may be sent now
	forProbe                  // to make the peer send an ack; carries payloads if there are any
	forTrain                  // one of the padded packets, sent back to back, that measure the rate of the path
	forSize                   // padding, to probe whether the path takes packets of up to MaxPacket bytes
	forJumbo                  // padding, to probe whether the path takes JumboPacket bytes
	forPayload                // bulk and play, when the pacer allows it
	forPlay                   // play alone, which need not wait for the pacer
	forReport                 // feedback alone
)

// AppendPacket calls Build and Seal for the next packet. It may be a jumbo
// packet if size is large enough for one.
func (s *Session) AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	if packet, number, ok = s.Build(now, buf, size, size >= JumboPacket); !ok {
		return packet, 0, false
	}
	if err := s.Seal(packet, number); err != nil {
		s.end(err)
		return buf, 0, false
	}
	return packet, number, true
}

// Seal seals a packet of Build in place. It shares no state with other methods, so the caller need
// not hold the lock. But it must be called for one packet at a time, in the order of their numbers.
func (s *Session) Seal(packet []byte, number uint64) error {
	if _, err := s.sealer.seal(packet[:len(packet)-tagBytes], number); err != nil {
		return &Error{Reason: err.Error()}
	}
	return nil
}

// Build builds the next packet, of at most size bytes, if one may be sent now. It
// writes from the beginning of buf. If jumbo is true, buf has room for JumboPacket
// bytes, and the packet may be that large if the path takes it. The packet counts
// as sent when Build returns; the caller must Seal it before sending it.
func (s *Session) Build(now time.Time, buf []byte, size int, jumbo bool) (packet []byte, number uint64, ok bool) {
	t := s.tick(now)
	if size = min(size, MaxPacket); size < Overhead+dataHeader+leastFeedback {
		return buf, 0, false
	}
	for {
		why := s.next(t, size, jumbo)
		if why == nothing {
			return buf, 0, false
		}
		if packet, number, ok = s.build(t, why, buf, s.limit(why, size, jumbo)); ok || s.state == Closed {
			return packet, number, ok
		}
	}
}

// limit returns the most bytes of a packet for a purpose. A probe is never larger than
// SafePacket, so that on a path that has shrunk it shows that smaller packets arrive.
func (s *Session) limit(why purpose, most int, jumbo bool) int {
	switch {
	case s.train.thin && (why == forTrain || why == forProbe && s.state == Opening):
		return thinPacket
	case why == forProbe:
		return min(most, SafePacket)
	case why == forSize:
		return most
	case why == forJumbo, why == forPayload && jumbo && s.mtu.takesJumbo():
		return JumboPacket
	}
	return s.mtu.limit(most)
}

// next returns the purpose of the packet to build now; most is the largest size
// that the owner allows.
func (s *Session) next(t time.Duration, most int, jumbo bool) purpose {
	switch {
	case !s.started || s.state == Closed || s.records.Len() >= maxRecords:
		return nothing
	case s.hearing.probes > 0:
		return forProbe
	case s.state <= Open && s.train.left > 0:
		return forTrain
	case s.report.alone && s.mayReport() && s.report.due(t):
		return forReport
	case s.wants() && s.mayLeave(t):
		if s.mtu.probeDue(t, most) {
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

// wants reports whether the source may have a payload that can be sent as soon
// as the pacer allows it.
func (s *Session) wants() bool {
	return s.state == Open && !s.supply.empty && !s.train.holds() && s.records.Len() < maxRecords-sparedRecords
}

// leastPlay is how many packets of play may be in flight on any path without waiting for the pacer.
const leastPlay = 4

// wantsPlay reports whether play may be sent although the pacer does not allow it: while play in
// flight is below playBound, which is half of the window. More play than that waits for the pacer,
// as bulk does. Otherwise a flood of it would keep up a queue that no pause of the pacer drains.
func (s *Session) wantsPlay() bool {
	return s.state == Open && !s.supply.noPlay && s.records.Len() < maxRecords-sparedRecords && s.records.play < s.playBound()
}

// playBound returns how many bytes of play may be in flight before play must wait for the pacer.
func (s *Session) playBound() int { return max(leastPlay*s.playSize(), s.control.Window()/2) }

// playSize is size for a packet of play, which is never a jumbo packet.
func (s *Session) playSize() int { return min(s.size(), MaxPacket+overheadUDP) }

// wantsAckSoon reports whether a packet of play asks for feedback soon, as bulk does:
// if the packet after this one would not fit into playBound, and, once play has filled
// that bound, from half of it on. Otherwise each flight of a flood would wait for the
// peer's ack delay (TestFloodOfPlayOnAShortPath, rpc.TestFloodOfPlayOverSealedPackets).
func (s *Session) wantsAckSoon() bool {
	bound := s.playBound()
	if s.supply.pressed {
		bound /= 2
	}
	return s.records.play+2*s.playSize() > bound
}

// asks reports whether the session could send a payload now, if the source had one.
func (s *Session) asks() bool { return s.started && (s.wantsPlay() || s.wants() && s.mayLeave(s.now)) }

// size estimates the next packet with a payload, in bytes on the wire: it will
// be as large as the last one.
func (s *Session) size() int {
	switch {
	case s.full == 0:
		return SafePacket + overheadUDP
	case s.mtu.takesJumbo():
		return s.full
	}
	return min(s.full, MaxPacket+overheadUDP)
}

// mayLeave reports whether the pacer allows a packet to be sent now.
func (s *Session) mayLeave(t time.Duration) bool {
	if s.control.State() == pace.Start {
		s.tellStart()
	}
	now := s.time(t)
	at, ok := s.control.Next(now, s.size(), s.records.bytes)
	return ok && !at.After(now)
}

// tellStart reports to the controller, while that is in its Start, how many
// bytes wait to be sent and how many sessions of the owner are in their Start
// as well. Bulk that fits into the first flight does not count as a start.
func (s *Session) tellStart() {
	waiting := s.source.Waiting()
	s.control.Waiting(waiting)
	if waiting > trainPackets*s.size() {
		s.starting.set(true)
	}
	s.control.Starters(s.starting.count(), s.bulkInFlight())
}

// build builds one packet. ok is false if the source has no payload for it.
func (s *Session) build(t time.Duration, why purpose, buf []byte, size int) (packet []byte, number uint64, ok bool) {
	number = s.records.Next
	if number == s.skips.next && why != forTrain {
		number++
	}
	if number >= maxNumber {
		s.end(&Error{Reason: "packet numbers are used up; a new carrier is needed"})
		return buf, 0, false
	}
	limit, rec := size-tagBytes, record{sent: t, fate: silent}
	b, ok := s.appendContent(t, why, number, appendHeader(buf[:0], s.id, number), limit, &rec)
	if !ok {
		return buf, 0, false
	}
	limit = rec.fits(limit)
	rides := rec.payloads > 0 && !rec.bulk && s.report.waits() && limit-len(b) >= leastFeedback // before feedback is due, if there is room
	if why == forReport || rides || why != forTrain && s.report.due(t) {
		b = s.appendReport(t, b, limit, why, &rec)
	}
	packet = slices.Grow(b, tagBytes)[:len(b)+tagBytes]
	s.sent(t, packet, number, rec)
	return packet, number, true
}

// appendContent appends what the packet is built for, except feedback. ok is
// false if the source has no payload, which is recorded in supply.
func (s *Session) appendContent(t time.Duration, why purpose, number uint64, b []byte, limit int, rec *record) (_ []byte, ok bool) {
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
		if b = s.appendPayloads(t, b, Room{Max: limit, Bulk: true}, rec); rec.payloads == 0 {
			s.supply = supply{empty: true, noPlay: true}
			s.control.Limited(s.records.bytes)
			return b, false
		}
	case forPlay:
		if b = s.appendPayloads(t, b, Room{Max: limit}, rec); rec.payloads == 0 {
			s.supply.noPlay, s.supply.pressed = true, false
			return b, false
		}
	}
	return b, true
}

// appendProbe appends a ping. While opening, the packet is padded to limit, a
// size that every path takes, because the size that QUIC has found may be too
// large by now. Later it carries payloads, if there are any.
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
	rec.fate, rec.train = flying, true
	if s.report.due(t) {
		b = s.appendReport(t, b, limit, forTrain, rec)
	}
	return pad(b, limit)
}

// appendSize appends a padded ping, to probe whether the path takes a packet of
// that size. It carries nothing that would have to be sent again.
func (s *Session) appendSize(b []byte, limit int, rec *record) []byte {
	rec.fate = flying
	return pad(append(b, framePing), limit)
}

// pad fills a packet with framePadding, which is 0. No frame may follow it.
func pad(b []byte, limit int) []byte {
	return append(b, make([]byte, max(limit-len(b), 0))...)
}

// appendPayloads appends payloads until the source has none that fits. The
// frames may take room.Max bytes, or without bulk what fits into MaxPacket.
func (s *Session) appendPayloads(t time.Duration, b []byte, room Room, rec *record) []byte {
	for rec.payloads < maxPayloads && rec.fits(room.Max)-len(b) >= minRoom {
		head := len(b)
		most := rec.fits(room.Max) - head - dataHeader
		b = append(b, framePlay, 0, 0)
		out, token, content, ok := s.source.AppendPayload(s.time(t), b, Room{Max: most, Bulk: room.Bulk})
		if !ok {
			return b[:head]
		}
		n := len(out) - len(b)
		if n < 1 || n > most {
			panic(fmt.Sprintf("sealed: a source appended a payload of %d bytes, its limits were 1 and %d", n, most))
		}
		if content.Play {
			s.control.Played(s.time(t))
			room.Max = min(room.Max, MaxPacket-tagBytes) // more play would wait behind the rest of a jumbo packet
		}
		rec.bulk = rec.bulk || content.Bulk
		if content.Bulk || s.wantsAckSoon() {
			out[head] = frameData
		}
		binary.BigEndian.PutUint16(out[head+1:], uint16(n))
		b = out
		rec.tokens[rec.payloads] = token
		rec.payloads++
		rec.fate, rec.paced = flying, true
	}
	return b
}

// appendReport appends feedback if it fits. Every pingAfter-th packet with
// nothing else carries a ping, too, which asks for an ack.
func (s *Session) appendReport(t time.Duration, b []byte, limit int, why purpose, rec *record) []byte {
	bare := why == forReport && s.report.bare+1 >= pingAfter
	if bare {
		b = append(b, framePing)
		rec.fate = flying
	}
	if limit-len(b) < leastFeedback {
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

// sent records a packet that was built, and the number that was skipped before it, if any.
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
		if s.train.holds() { // bulk waits for the train's result, so no rate can be measured by play alone
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
