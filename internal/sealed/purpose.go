package sealed

import "time"

// A purpose is what a packet is sent for.
type purpose uint8

const (
	nothing    purpose = iota // no packet may be sent now
	forProbe                  // makes the peer send an ack; carries payloads if there are any
	forTrain                  // one of the padded back-to-back packets that measure the path's rate
	forMTU                    // tests whether the path carries FullPacket bytes again
	forJumbo                  // tests whether the path carries JumboPacket bytes
	forPayload                // bulk (transfers) and play (the game's own traffic), as paced
	forPlay                   // play alone, which needn't wait for the pacer
	forReport                 // a report alone
)

// minPlayPackets is the number of play packets that may be in flight unpaced, however small the
// window is. It's enough for the play of a few ticks.
const minPlayPackets = 4

// next decides what the next packet is sent for. allowed is the largest size that the owner allows,
// and jumbo is true if it also allows jumbo packets.
//
// Probes go first, because they are due only when the peer may not be receiving anything. The
// train precedes everything that might disturb its measurement. Reports go last, since a packet
// with payloads may carry one as well.
func (s *Session) next(t time.Duration, allowed int, jumbo bool) purpose {
	switch {
	case !s.started || s.state == Closed:
		return nothing
	case s.records.Len() >= maxRecords:
		// We can't keep track of more packets until some old ones are forgotten.
		return nothing
	case s.liveness.probesDue > 0:
		return forProbe
	case s.maySendTrain() && s.train.unsent > 0:
		return forTrain
	case s.reporter.ownPacket && s.mayReport() && s.reporter.due(t):
		// The last packet had no room for the report. The next may be just as full, so send the
		// report in a packet of its own.
		return forReport
	case s.wantsPayload() && s.pacerAllows(t):
		// We probe for larger packets only while there's data to send.
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

// maySendTrain reports whether the carrier's state permits a train. A silent carrier sends only
// probes and reports.
func (s *Session) maySendTrain() bool { return s.state == Opening || s.state == Open }

// mayReport reports whether we may send a packet that carries only a report. Most of these packets
// don't ask for an ack, so few are ever acked, and we limit how many we have to remember.
func (s *Session) mayReport() bool { return s.records.ackOptional < maxAckOptional }

// wantsPayload reports whether there may be a payload to send as soon as the pacer allows it.
func (s *Session) wantsPayload() bool {
	return s.state == Open && !s.supply.empty && !s.train.holdsPayloads() && s.hasPayloadRecord()
}

// wantsUnpacedPlay reports whether there may be play to send without asking the pacer. Play
// normally goes out at once, but only until playBound bytes of it are in flight.
//
// Beyond that, it waits for the pacer, just like bulk. Otherwise a flood of play would maintain
// a standing queue on the path that wouldn't drain however long the pacer paused.
func (s *Session) wantsUnpacedPlay() bool {
	return s.state == Open && !s.supply.noPlay && s.hasPayloadRecord() &&
		s.records.playInFlight < s.playBound()
}

// hasPayloadRecord reports whether there is a record left for a packet with payloads.
func (s *Session) hasPayloadRecord() bool { return s.records.Len() < maxRecords-reservedRecords }

// playBound returns how many bytes of play may be in flight unpaced: half of the window, but at
// least minPlayPackets packets.
func (s *Session) playBound() int {
	return max(minPlayPackets*s.nextPlaySize(), s.control.Window()/2)
}

// wantsAckSoon reports whether a packet of play should ask for feedback soon, as bulk does.
//
// Usually the peer may delay feedback for play. If it did so in a flood of play, which fills
// playBound, we couldn't send the next flight until that delay was over. So the packet asks for
// feedback soon if the packet after it won't fit into playBound. After play has reached the bound,
// packets ask for it from half of the bound on, until the source runs out of play.
//
// See TestFloodOfPlayOnAShortPath and rpc.TestFloodOfPlayOverSealedPackets.
func (s *Session) wantsAckSoon() bool {
	bound := s.playBound()
	if s.supply.flooded {
		bound /= 2
	}
	afterNext := s.records.playInFlight + 2*s.nextPlaySize() // with this packet and the next
	return afterNext > bound
}

// canSendPayload reports whether we could send a payload right now if the source had one.
func (s *Session) canSendPayload() bool {
	return s.started && (s.wantsUnpacedPlay() || s.wantsPayload() && s.pacerAllows(s.now))
}

// nextSize estimates the size on the wire of the next packet with a payload, because we can't know
// it before we ask the source. The estimate is the size of the last such packet.
func (s *Session) nextSize() int {
	switch {
	case s.lastSize == 0:
		return SafePacket + wireOverhead
	case s.mtu.takesJumbo():
		return s.lastSize
	}
	return min(s.lastSize, FullPacket+wireOverhead)
}

// nextPlaySize is nextSize for a packet of play, which is never a jumbo packet.
func (s *Session) nextPlaySize() int { return min(s.nextSize(), FullPacket+wireOverhead) }

// pacerAllows reports whether the pacer lets us send a packet now.
func (s *Session) pacerAllows(t time.Duration) bool {
	now := s.time(t)
	at, ok := s.control.Next(now, s.nextSize(), s.records.bytesInFlight)
	return ok && !at.After(now)
}

// limit returns the maximum size of a packet with purpose p. allowed is the largest size that the
// owner allows.
func (s *Session) limit(p purpose, allowed int, jumbo bool) int {
	switch {
	case s.train.thin && (p == forTrain || p == forProbe && s.state == Opening):
		// The path may be slow, so don't burden it with full packets yet.
		return thinPacket
	case p == forProbe:
		// Stay small enough to get through even if the path's MTU has shrunk. Then the ack shows
		// that smaller packets still arrive.
		return min(allowed, SafePacket)
	case p == forMTU:
		return allowed
	case p == forJumbo, p == forPayload && jumbo && s.mtu.takesJumbo():
		return JumboPacket
	}
	return s.mtu.limit(allowed)
}
