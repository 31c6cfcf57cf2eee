package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A fate is what becomes of a packet that we send. Most packets are in flight until the peer
// acknowledges them or we declare them lost.
type fate uint8

const (
	noFate   fate = iota // not sent yet, or not ack-eliciting, so its fate doesn't matter
	inFlight             // ack-eliciting, and neither acknowledged nor lost
	lost                 // its data was queued again, but a late ack still frees its entries
	acked
	skipped // never sent, to catch a peer that makes up acks (RFC 9000, section 21.4)
)

// An item is a range of an entry's bytes that a packet contains.
type item struct {
	channel  *channel
	sequence uint64
	off, end uint16
	first    bool // these bytes hadn't been sent before
}

// pieces returns the pieces that the item covers. There are none if the entry was acknowledged
// and freed, and several if the item was sent as one piece that has been cut since.
func (it *item) pieces() []piece {
	if it.sequence < it.channel.first {
		return nil
	}
	covered := it.channel.out.at(it.sequence).all()
	for len(covered) > 0 && covered[0].off < it.off {
		covered = covered[1:]
	}
	for len(covered) > 0 && covered[len(covered)-1].end > it.end {
		covered = covered[:len(covered)-1]
	}
	return covered
}

// A sentPacket is the record of a sent packet. We keep it until we know the packet's fate, or, if
// the packet is lost or was skipped, for another lostRecordPTOs.
type sentPacket struct {
	// How it was sent.
	size   int
	at     time.Duration
	mark   recovery.Mark // from congestion.Sent
	probe  bool          // sent as a probe, regardless of the window
	ackNow bool          // asks for an ack at once

	// What's in it.
	limit      bool     // announces our receive limit
	acks       bool     // has acks
	hasBunches bool     // counted in sentPackets.withBunches
	covers     uint64   // its acks report all packets received with a number below this
	items      []item   // reliable entries, or ranges of them
	tracked    []uint64 // records of its tracked messages, as passed to SendTracked

	// What became of it.
	fate       fate
	arrived    time.Duration // when the carrier reported its arrival; zero if it hasn't
	lostUntil  time.Duration // if lost or skipped, when we may drop the record
	ackedBelow uint64        // number of packets just below it that the same range acknowledged
}

// sentPackets holds the records of sent packets, from the oldest whose fate still matters to
// the newest.
type sentPackets struct {
	recovery.Ring[sentPacket]
	undecided   uint64 // no packet below this number is in flight
	withBunches int    // records of packets with bunches

	// Packets in flight.
	packetsInFlight int
	bytesInFlight   int

	lastAckEliciting time.Duration // when an ack-eliciting packet was last sent
	bulkSinceAckNow  int           // packets with bulk since one of them asked for an ack at once
	lossRate         float64       // share of packets lost, smoothed over lossSpan packets
}

// lossSpan is the number of packets over which the loss rate is smoothed. At 30 Hz, sending
// them takes nine seconds.
const lossSpan = 256

// bareRecords is the maximum number of records while few packets have bunches. Without a limit, a
// peer could exhaust our memory by making us send acks and limits. The number suffices for two
// seconds with an ack every millisecond.
const bareRecords = 2048

// initialSent is the number of records to make room for at first, which is what a handshake or a
// tick of play takes.
const initialSent = 4

// makeRoom makes room for another record by dropping records that we no longer need, and reports
// whether there is room now.
//
// There are never more than seenWindow records, because the peer doesn't remember more packets.
func (s *sentPackets) makeRoom() bool {
	limit := max(bareRecords, min(seenWindow, 8*s.withBunches))
	if s.Len() >= limit {
		s.dropDecided()
	}
	return s.Len() < limit
}

// roomForTwo reports whether two records may be added before one must be dropped.
func (s *sentPackets) roomForTwo() bool { return s.Len() <= seenWindow-2 }

// drop drops the oldest record, whatever its fate.
func (s *sentPackets) drop() {
	p := s.At(s.Oldest)
	s.uncountBunches(p)
	clear(p.items)
	s.Oldest++
}

// countBunches counts p as a packet with bunches.
func (s *sentPackets) countBunches(p *sentPacket) {
	p.hasBunches = true
	s.withBunches++
}

// uncountBunches undoes countBunches.
func (s *sentPackets) uncountBunches(p *sentPacket) {
	if p.hasBunches {
		p.hasBunches = false
		s.withBunches--
	}
}

// add adds an empty record for the next packet, and returns it. It reuses the memory of an old
// record's items and tracked.
func (s *sentPackets) add() *sentPacket {
	if s.Len() == s.Cap() {
		s.dropDecided()
	}
	p := s.Push(initialSent)
	*p = sentPacket{items: p.items[:0], tracked: p.tracked[:0]}
	return p
}

// dropDecided drops the oldest records, up to the first whose fate still matters.
func (s *sentPackets) dropDecided() {
	for s.Oldest < s.Next {
		if f := s.At(s.Oldest).fate; f != noFate && f != acked {
			return
		}
		s.drop()
	}
}

// packetSent puts p in flight. It must elicit an ack.
func (s *sentPackets) packetSent(p *sentPacket, now time.Duration) {
	p.fate = inFlight
	s.bytesInFlight += p.size
	s.packetsInFlight++
	s.lastAckEliciting = now
}

// keepAliveAt returns when a keep-alive is due, unless an ack-eliciting packet is sent first.
// There are none if interval is 0, or while a packet is in flight.
func (s *sentPackets) keepAliveAt(interval time.Duration) time.Duration {
	if interval == 0 || s.packetsInFlight > 0 {
		return never
	}
	return s.lastAckEliciting + interval
}

// decide sets the fate of p, and takes it out of flight.
func (s *sentPackets) decide(p *sentPacket, f fate) {
	if p.fate == inFlight {
		s.bytesInFlight -= p.size
		s.packetsInFlight--
	}
	switch {
	case f == lost:
		s.lossRate += (1 - s.lossRate) / lossSpan
	case p.fate == lost:
		// The packet was only late, so subtract what we added for its loss.
		s.lossRate = max(0, s.lossRate-1.0/lossSpan)
	default:
		s.lossRate -= s.lossRate / lossSpan
	}
	p.fate = f
}

// hasSpare reports whether there's memory for Shrink to free once the records have expired, which
// they all do while nothing is in flight. The memory for initialSent records doesn't count, because
// the next keep-alive needs it again.
func (s *sentPackets) hasSpare() bool { return s.packetsInFlight == 0 && s.Cap() > initialSent }

// truncate undoes add for a packet that wasn't sent after all, and for the skipped number before
// it, if there is one. next becomes the number of the next packet.
func (s *sentPackets) truncate(next uint64) {
	s.Next = next
	s.undecided = min(s.undecided, s.Next)
}

// skippedAfter returns the number of packet numbers that were skipped between n and the third
// packet sent after it. Skipped numbers mustn't count toward the packet threshold (RFC 9002,
// section 6.1.1), because they never overtook n. There may be several consecutive ones if the
// carrier refused packets.
func (s *sentPackets) skippedAfter(n uint64) (count uint64) {
	for next := n + 1; next < min(n+minSkip+count, s.Next); next++ {
		if s.At(next).fate == skipped {
			count++
		}
	}
	return count
}

// dropExpired drops the oldest records, up to the first whose packet is in flight, or is lost or
// skipped but must be remembered for longer.
func (s *sentPackets) dropExpired(now time.Duration) {
	s.advanceUndecided()
	for s.Oldest < s.undecided {
		if p := s.At(s.Oldest); (p.fate == lost || p.fate == skipped) && now < p.lostUntil {
			return
		}
		s.drop()
	}
}

// spread returns the number of packet numbers from the oldest packet in flight to the newest
// packet.
func (s *sentPackets) spread() int {
	s.advanceUndecided()
	return int(s.Next - s.undecided)
}

// advanceUndecided raises undecided to the oldest packet in flight, or to Next if there's none.
func (s *sentPackets) advanceUndecided() {
	s.undecided = max(s.undecided, s.Oldest)
	for s.undecided < s.Next && s.At(s.undecided).fate != inFlight {
		s.undecided++
	}
}

// firstInFlight returns the number of the oldest packet in flight. ok is false if there's none.
func (s *sentPackets) firstInFlight() (n uint64, ok bool) {
	s.advanceUndecided()
	return s.undecided, s.undecided < s.Next
}

// unkeptAt returns when to call loseUnkept, which is for the oldest packet in flight if the carrier
// has reported its arrival. If the packet hasn't arrived, that is left to the other timers.
func (s *sentPackets) unkeptAt() time.Duration {
	n, ok := s.firstInFlight()
	if !ok || s.At(n).arrived == 0 {
		return never
	}
	return s.At(n).arrived + recovery.KeepTime
}
