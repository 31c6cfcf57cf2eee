package sealed

import "time"

// A purpose is why we build a packet.
type purpose uint8

const (
	nothing    purpose = iota // no packet may be sent now
	forProbe                  // makes the peer send an ack; carries payloads if there are any
	forTrain                  // one of the padded back-to-back packets that measure the path's rate
	forMTU                    // tests whether the path takes FullPacket bytes again
	forJumbo                  // tests whether the path takes JumboPacket bytes
	forPayload                // bulk (transfers) and play (the game's own traffic), as paced
	forPlay                   // play alone, which needn't wait for the pacer
	forReport                 // a report alone
)

// minPlay is the number of play packets that may always be in flight without waiting for the
// pacer, however small the window is. It's enough for the play of a few ticks.
const minPlay = 4

// next decides what the next packet is for. allowed is the largest size that the owner allows.
//
// Probes go first, because they are due only when the peer may not be receiving anything. The
// train goes before everything that might disturb its measurement. Reports go last, since a
// packet with payloads may carry one as well.
func (s *Session) next(t time.Duration, allowed int, jumbo bool) purpose {
	switch {
	case !s.started || s.state == Closed:
		return nothing
	case s.records.Len() >= maxRecords:
		// We can't keep track of more packets until some old ones are forgotten.
		return nothing
	case s.liveness.probesDue > 0:
		return forProbe
	case s.state <= Open && s.train.unsent > 0:
		return forTrain
	case s.reporter.ownPacket && s.mayReport() && s.reporter.due(t):
		// The last packet had no room for the report, and the next may be just as full, so send
		// the report in a packet of its own.
		return forReport
	case s.wantsPayload() && s.pacerAllows(t):
		// We only probe for larger packets while there's data to send.
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

// mayReport reports whether we may send a packet that carries only a report. Few of these packets
// are ever acked, since most don't ask for an ack, so we limit how many we have to remember.
func (s *Session) mayReport() bool { return s.records.ackOptional < maxAckOptional }

// wantsPayload reports whether there may be a payload to send as soon as the pacer allows it.
func (s *Session) wantsPayload() bool {
	return s.state == Open && !s.supply.empty && !s.train.holdsPayloads() &&
		s.records.Len() < maxRecords-reservedRecords
}

// wantsUnpacedPlay reports whether there may be play to send without asking the pacer. Play
// normally goes out at once, but only until playBound bytes of it are in flight.
//
// Beyond that it waits for the pacer, just like bulk. Otherwise a flood of play would maintain
// a standing queue on the path that wouldn't drain however long the pacer paused.
func (s *Session) wantsUnpacedPlay() bool {
	return s.state == Open && !s.supply.noPlay &&
		s.records.Len() < maxRecords-reservedRecords && s.records.playInFlight < s.playBound()
}

// playBound returns how many bytes of play may be in flight before play must wait for the
// pacer: half of the window, but at least minPlay packets.
func (s *Session) playBound() int { return max(minPlay*s.nextPlaySize(), s.control.Window()/2) }

// wantsAckSoon reports whether a packet of play should ask for feedback soon, as bulk does.
//
// Usually the peer may delay feedback for play. In a flood, however, every flight would then
// have to wait for the peer's ack delay before the next could be sent. A packet therefore asks
// for feedback soon if the packet after it would no longer fit into playBound. Once play has
// reached the bound, packets start asking at half of it, until the source runs out of play.
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

// nextSize estimates the size on the wire of the next packet with a payload, which isn't known
// before we ask the source. It assumes that the packet will be as large as the last one.
func (s *Session) nextSize() int {
	switch {
	case s.lastSize == 0:
		return SafePacket + overheadUDP
	case s.mtu.takesJumbo():
		return s.lastSize
	}
	return min(s.lastSize, FullPacket+overheadUDP)
}

// nextPlaySize is nextSize for a packet of play, which is never a jumbo packet.
func (s *Session) nextPlaySize() int { return min(s.nextSize(), FullPacket+overheadUDP) }

// pacerAllows reports whether the pacer lets us send a packet now.
func (s *Session) pacerAllows(t time.Duration) bool {
	now := s.time(t)
	at, ok := s.control.Next(now, s.nextSize(), s.records.bytesInFlight)
	return ok && !at.After(now)
}

// limit returns the maximum size of a packet for its purpose. allowed is the largest size
// that the owner allows.
func (s *Session) limit(why purpose, allowed int, jumbo bool) int {
	switch {
	case s.train.thin && (why == forTrain || why == forProbe && s.state == Opening):
		// The path may be slow, so don't burden it with full packets yet.
		return thinPacket
	case why == forProbe:
		// Stay small enough to get through even if the path has shrunk. The ack then shows that
		// smaller packets still arrive.
		return min(allowed, SafePacket)
	case why == forMTU:
		return allowed
	case why == forJumbo, why == forPayload && jumbo && s.mtu.takesJumbo():
		return JumboPacket
	}
	return s.mtu.limit(allowed)
}
