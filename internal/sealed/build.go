package sealed

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/pace"
)

// A purpose is why we build a packet.
type purpose uint8

const (
	nothing    purpose = iota // no packet may be sent now
	forProbe                  // get an ack out of the peer; carries payloads if there are any
	forTrain                  // one of the padded back-to-back packets that measure the path's rate
	forMTU                    // padding, to find out if the path takes packets of up to MaxPacket again
	forJumbo                  // padding, to find out if the path takes packets of JumboPacket bytes
	forPayload                // bulk (transfers) and play (the game's own traffic), as paced
	forPlay                   // play alone, which needn't wait for the pacer
	forReport                 // feedback alone
)

// AppendPacket builds and seals the next packet. If size is large enough for a jumbo packet,
// it may be one.
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
// buf and has at most size bytes, unless jumbo is set: then buf has room for JumboPacket bytes,
// and the packet may be that large if the path takes it.
//
// The packet counts as sent once Build returns, although the caller still has to Seal it.
func (s *Session) Build(now time.Time, buf []byte, size int, jumbo bool) (packet []byte, number uint64, ok bool) {
	t := s.tick(now)
	size = min(size, MaxPacket)
	if size < Overhead+dataHeader+minReport {
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
		// The source had nothing after all. We won't ask for the same again until Wake, but
		// there may be another reason to send a packet.
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

// next decides what the next packet is for. allowed is the largest size that the owner allows.
func (s *Session) next(t time.Duration, allowed int, jumbo bool) purpose {
	switch {
	case !s.started || s.state == Closed:
		return nothing
	case s.records.Len() >= maxRecords:
		// We can't keep track of any more packets until some old ones are forgotten.
		return nothing
	case s.liveness.probesDue > 0:
		return forProbe
	case s.state <= Open && s.train.unsent > 0:
		return forTrain
	case s.reporter.needsOwnPacket && s.mayReport() && s.reporter.due(t):
		// The last packet had no room for feedback, and the next may be just as full, so
		// send it by itself.
		return forReport
	case s.wantsPayload() && s.pacerAllows(t):
		// We only look for larger packets while there's data to send.
		if s.mtu.probeDue(t, allowed) {
			return forMTU
		}
		if jumbo && s.bulkInFlight() > 0 && s.mtu.jumbo.probeDue(t) {
			return forJumbo
		}
		return forPayload
	case s.wantsUnpacedPlay():
		return forPlay
	case s.mayReport() && s.reporter.due(t):
		return forReport
	}
	return nothing
}

// mayReport reports whether we may send a packet with nothing but feedback. Few of those are
// ever acked, since most don't ask for it, so we limit how many we have to remember.
func (s *Session) mayReport() bool { return s.records.ackOptional < maxAckOptional }

// wantsPayload reports whether there may be a payload to send as soon as the pacer allows it.
func (s *Session) wantsPayload() bool {
	return s.state == Open && !s.supply.empty && !s.train.holdsPayloads() &&
		s.records.Len() < maxRecords-reservedRecords
}

// wantsUnpacedPlay reports whether there may be play to send without asking the pacer. Play
// normally goes out at once, but only until playBound bytes of it are in flight.
//
// Beyond that it waits for the pacer, just like bulk. Otherwise a flood of play would keep up a
// queue on the path that won't drain however long the pacer pauses.
func (s *Session) wantsUnpacedPlay() bool {
	return s.state == Open && !s.supply.noPlay &&
		s.records.Len() < maxRecords-reservedRecords && s.records.playInFlight < s.playBound()
}

// minPlay is how many packets of play may be in flight without waiting for the pacer, however
// small the window is.
const minPlay = 4

// playBound returns how many bytes of play may be in flight before play must wait for the
// pacer: half of the window, but at least minPlay packets.
func (s *Session) playBound() int { return max(minPlay*s.nextPlaySize(), s.control.Window()/2) }

// wantsAckSoon reports whether a packet of play should ask for feedback soon, as bulk does.
//
// Usually the peer may take its time with feedback for play. In a flood, though, each flight
// would then sit out the peer's ack delay before the next could leave, so a packet asks for
// feedback if the one after it wouldn't fit into playBound any more. Once play has run into the
// bound, packets ask from half of it on, until the source runs out of play.
//
// See TestFloodOfPlayOnAShortPath and rpc.TestFloodOfPlayOverSealedPackets.
func (s *Session) wantsAckSoon() bool {
	bound := s.playBound()
	if s.supply.flooded {
		bound /= 2
	}
	withNext := s.records.playInFlight + 2*s.nextPlaySize() // this packet and the one after it
	return withNext > bound
}

// canSendPayload reports whether we could send a payload right now if the source had one.
func (s *Session) canSendPayload() bool {
	return s.started && (s.wantsUnpacedPlay() || s.wantsPayload() && s.pacerAllows(s.now))
}

// nextSize estimates the size on the wire of the next packet with a payload. We can't know
// before we ask the source, so we assume that it will be as large as the last one.
func (s *Session) nextSize() int {
	switch {
	case s.lastSize == 0:
		return SafePacket + overheadUDP
	case s.mtu.takesJumbo():
		return s.lastSize
	}
	return min(s.lastSize, MaxPacket+overheadUDP)
}

// nextPlaySize is nextSize for a packet of play, which is never a jumbo packet.
func (s *Session) nextPlaySize() int { return min(s.nextSize(), MaxPacket+overheadUDP) }

// pacerAllows reports whether the pacer lets us send a packet now.
func (s *Session) pacerAllows(t time.Duration) bool {
	if s.control.State() == pace.Start {
		s.updateStart()
	}
	now := s.time(t)
	at, ok := s.control.Next(now, s.nextSize(), s.records.bytesInFlight)
	return ok && !at.After(now)
}

// updateStart tells a controller in state Start how much is waiting to be sent, and how many of
// the owner's sessions are starting alongside this one.
func (s *Session) updateStart() {
	waiting := s.source.Waiting()
	s.control.Waiting(waiting)
	if waiting > trainPackets*s.nextSize() {
		// Anything less fits into the first flight and doesn't count as a start.
		s.starting.set(true)
	}
	s.control.Starters(s.starting.count(), s.bulkInFlight())
}

// limit returns how large a packet may be, given its purpose. allowed is the largest size that
// the owner allows.
func (s *Session) limit(why purpose, allowed int, jumbo bool) int {
	switch {
	case s.train.thin && (why == forTrain || why == forProbe && s.state == Opening):
		// The path may be slow, so don't burden it with full packets yet.
		return thinPacket
	case why == forProbe:
		// Stay small enough to get through even if the path has shrunk. We then learn that
		// smaller packets still arrive.
		return min(allowed, SafePacket)
	case why == forMTU:
		return allowed
	case why == forJumbo, why == forPayload && jumbo && s.mtu.takesJumbo():
		return JumboPacket
	}
	return s.mtu.limit(allowed)
}

// build builds a packet of at most size bytes. ok is false if it was to carry a payload and the
// source has none.
func (s *Session) build(
	t time.Duration, why purpose, buf []byte, size int,
) (packet []byte, number uint64, ok bool) {
	// Skip a number now and then, to catch a peer that acks packets it never received.
	number = s.records.Next
	if number == s.skips.next && why != forTrain {
		number++
	}
	if number >= maxNumber {
		s.closeWith(&Error{Reason: "packet numbers are used up; a new carrier is needed"})
		return buf, 0, false
	}

	limit := size - tagBytes
	rec := record{sent: t, fate: ackOptional}
	b := appendHeader(buf[:0], s.id, number)
	if b, ok = s.appendContent(t, why, number, b, limit, &rec); !ok {
		return buf, 0, false
	}

	// Add feedback if it's due. (The packets of a train have theirs already.) Feedback that
	// isn't due yet may piggyback on play, as long as that doesn't make a jumbo packet of it.
	limit = rec.frameLimit(limit)
	due := why == forReport || why != forTrain && s.reporter.due(t)
	isPlay := rec.payloads > 0 && !rec.bulk
	piggyback := isPlay && s.reporter.hasPending() && limit-len(b) >= minReport
	if due || piggyback {
		b = s.appendReport(t, b, limit, why, &rec)
	}

	packet = slices.Grow(b, tagBytes)[:len(b)+tagBytes] // Seal fills in the tag
	s.packetSent(t, packet, number, rec)
	return packet, number, true
}

// appendContent appends whatever the packet is for, except for feedback. ok is false if that is
// a payload and the source has none. In that case it makes a note in supply, so that we don't
// ask the source over and over.
func (s *Session) appendContent(
	t time.Duration, why purpose, number uint64, b []byte, limit int, rec *record,
) (_ []byte, ok bool) {
	switch why {
	case forProbe:
		return s.appendProbe(t, b, limit, rec), true
	case forTrain:
		return s.appendTrain(t, b, limit, rec), true
	case forMTU:
		s.mtu.probeSent(t)
		return s.appendMTUProbe(b, limit, rec), true
	case forJumbo:
		s.mtu.jumbo.probeSent(number)
		return s.appendMTUProbe(b, limit, rec), true
	case forPayload:
		b = s.appendPayloads(t, b, Room{Max: limit, Bulk: true}, rec)
		if rec.payloads == 0 {
			s.supply = supply{empty: true, noPlay: true}
			s.control.Limited(s.records.bytesInFlight) // it's the source that holds us up, not the path
			return b, false
		}
	case forPlay:
		b = s.appendPayloads(t, b, Room{Max: limit}, rec)
		if rec.payloads == 0 {
			s.supply.noPlay = true
			s.supply.flooded = false
			return b, false
		}
	}
	return b, true
}

// appendProbe appends a ping.
//
// While the carrier opens, the probe is padded to the limit, which is a size that every path
// takes. (What QUIC found to work earlier may be too large by now.) Once the carrier is open,
// the probe carries payloads instead, if there are any.
func (s *Session) appendProbe(t time.Duration, b []byte, limit int, rec *record) []byte {
	s.liveness.probesDue--
	b = append(b, framePing)
	rec.fate = inFlight
	switch {
	case s.state == Opening:
		// Padding takes up the rest of the packet, so leave it out if feedback must follow.
		if !s.reporter.due(t) {
			b = pad(b, limit)
		}
	case s.wantsPayload():
		b = s.appendPayloads(t, b, Room{Max: limit, Bulk: true}, rec)
	}
	return b
}

// appendTrain appends a packet's worth of the train that measures the path: its countdown,
// feedback if that is due, and padding up to the limit.
func (s *Session) appendTrain(t time.Duration, b []byte, limit int, rec *record) []byte {
	s.train.unsent--
	s.train.inFlight++
	s.train.started = true
	b = append(b, frameTrain, byte(s.train.unsent))
	rec.fate = inFlight
	rec.train = true
	if s.reporter.due(t) {
		b = s.appendReport(t, b, limit, forTrain, rec)
	}
	return pad(b, limit)
}

// appendMTUProbe appends a ping padded to the limit, to see whether a packet of that size gets
// through. It carries no data, so nothing has to be retransmitted if it doesn't.
func (s *Session) appendMTUProbe(b []byte, limit int, rec *record) []byte {
	rec.fate = inFlight
	return pad(append(b, framePing), limit)
}

// pad fills the packet up with framePadding, which is 0. No frame may follow.
func pad(b []byte, limit int) []byte {
	return append(b, make([]byte, max(limit-len(b), 0))...)
}

// appendPayloads appends payloads until the source has none left that fits. Frames may take up
// room.Max bytes if there's bulk among them, but otherwise no more than MaxPacket allows.
func (s *Session) appendPayloads(t time.Duration, b []byte, room Room, rec *record) []byte {
	for rec.payloads < maxPayloads && rec.frameLimit(room.Max)-len(b) >= minRoom {
		// Write the frame's header first, and let the source append right behind it.
		head := len(b)
		free := rec.frameLimit(room.Max) - head - dataHeader
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
			// Don't go on to make a jumbo packet of it, since other play would have to wait
			// for the rest.
			room.Max = min(room.Max, MaxPacket-tagBytes)
		}

		// Now that we know what the payload is, complete the header.
		rec.bulk = rec.bulk || content.Bulk
		if content.Bulk || s.wantsAckSoon() {
			out[head] = frameData
		}
		binary.BigEndian.PutUint16(out[head+1:], uint16(n))
		b = out

		rec.tokens[rec.payloads] = token
		rec.payloads++
		rec.fate = inFlight
		rec.paced = true
	}
	return b
}

// appendReport appends feedback if there's room for it.
func (s *Session) appendReport(t time.Duration, b []byte, limit int, why purpose, rec *record) []byte {
	// Feedback by itself doesn't ask for an ack, except for every pingAfter-th time: the ack
	// lets us stop repeating what the peer knows already.
	if why == forReport && s.reporter.sinceAsked+1 >= pingAfter {
		b = append(b, framePing)
		rec.fate = inFlight
	}
	if limit-len(b) < minReport {
		s.reporter.needsOwnPacket = true // send it in a packet by itself
		return b
	}
	s.reporter.pace(s.rtt())
	rec.knownBelow = s.reporter.fill(t, &s.frame.report, &s.opener.window, limit-len(b))
	s.stats.Feedbacks++
	if rec.fate == inFlight {
		s.reporter.sinceAsked = 0
	} else {
		s.reporter.sinceAsked++
	}
	return s.frame.report.append(b)
}

// packetSent records a packet that was built, along with the number that was skipped before it,
// if any.
func (s *Session) packetSent(t time.Duration, packet []byte, number uint64, rec record) {
	for s.records.Next < number {
		s.records.push(record{fate: skipped, sent: t, expires: t + silentPTOs*s.pto()})
	}
	if number >= s.skips.next {
		s.skips.draw(number)
	}

	rec.size = uint16(len(packet) + overheadUDP)
	rec.expires = t + silentPTOs*s.pto()
	if rec.paced {
		s.lastSize = int(rec.size)
		if s.train.holdsPayloads() {
			// Bulk waits for the train's result, so play alone can't show the path's rate.
			s.control.Limited(s.records.bytesInFlight + int(rec.size))
		}
		rec.sample = s.control.Sent(s.time(t), int(rec.size), s.records.bytesInFlight)
	}
	if rec.fate == inFlight {
		mayDelayAck := rec.payloads > 0 && !rec.bulk
		wasIdle := s.records.packetsInFlight == 0 && s.state == Open
		s.liveness.ackAsked(t, mayDelayAck, wasIdle)
	}
	s.records.push(rec)

	if s.records.playInFlight > 0 && s.records.playInFlight >= s.playBound() {
		s.supply.flooded = true
	}
	if s.config.Rate != nil {
		s.config.Rate.Spend(s.time(t), len(packet))
	}
	s.stats.Sent++
	s.stats.SentBytes += uint64(len(packet))
}
