package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A fate is what becomes of a packet that we send: the peer acknowledges it, or we declare it
// lost.
type fate uint8

const (
	nothing fate = iota // not sent yet, or elicits no ack, so its fate doesn't matter
	flying              // in flight: elicits an ack, and is neither acked nor lost
	lost                // its data has been queued again; a late ack still frees its entries
	acked
	skipped // never sent, to catch a peer that makes up acks (RFC 9000, section 21.4)
)

// An item is a range of an entry's bytes in a packet.
type item struct {
	channel  *channel
	sequence uint64
	off, end uint16
	first    bool // these bytes hadn't been sent before
}

// pieces returns the pieces that the item covers. There are none if all of the entry was
// acknowledged and it has been freed, and several if the item was sent as one piece that has
// been cut since.
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

// A sentPacket is the record of a sent packet. We keep it until we know the packet's fate. If
// the packet is lost or was skipped, we keep it for another lostRecordPTOs.
type sentPacket struct {
	// How it was sent.
	size   int
	at     time.Duration
	mark   recovery.Mark // from congestion.Sent
	probe  bool          // sent as a probe, regardless of the window
	ackNow bool          // asks for an ack at once

	// What's in it.
	limit   bool
	acks    bool
	loaded  bool     // has bunches; see load
	covers  uint64   // its acks report all packets received with a number below this
	items   []item   // reliable entries, or ranges of them
	tracked []uint64 // records of its tracked messages, as passed to SendTracked

	// What became of it.
	fate       fate
	arrived    time.Duration // when the carrier reported its arrival; zero if it hasn't
	lostUntil  time.Duration // if lost or skipped, when we may drop the record
	ackedBelow uint64        // packets right below it that were acknowledged in one range with it
}

// sentPackets holds the records of sent packets, from the oldest whose fate still matters to
// the newest.
type sentPackets struct {
	recovery.Ring[sentPacket]
	undecided uint64 // no packet below this number is in flight
	loaded    int    // records of packets with bunches

	// Packets in flight.
	flying   int
	inFlight int // in bytes

	lastAsk      time.Duration // when an ack-eliciting packet was last sent
	bulkSinceAsk int           // packets with bulk since one of them asked for an ack at once
	lossRate     float64       // share of packets lost, smoothed over lossSpan packets
}

// lossSpan is the number of packets over which the loss rate is smoothed. At 30 Hz, sending
// them takes nine seconds.
const lossSpan = 256

// bareRecords is the maximum number of records while few packets have bunches. It's enough for
// two seconds with an ack every millisecond. There must be a limit, because a peer can make us
// send any number of acks and limits.
const bareRecords = 2048

// initialSent is the number of records to make room for at first. A handshake or a tick of
// play doesn't take more.
const initialSent = 4

// makeRoom reports whether there is room for another record. If there isn't, it first drops the
// records that we no longer need.
//
// More records than seenWindow would be of no use, since the peer doesn't remember more
// packets.
func (s *sentPackets) makeRoom() bool {
	limit := max(bareRecords, min(seenWindow, 8*s.loaded))
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
	s.unload(p)
	clear(p.items)
	s.Oldest++
}

// load marks p as a packet with bunches.
func (s *sentPackets) load(p *sentPacket) {
	p.loaded = true
	s.loaded++
}

// unload undoes load.
func (s *sentPackets) unload(p *sentPacket) {
	if p.loaded {
		p.loaded = false
		s.loaded--
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
		if f := s.At(s.Oldest).fate; f != nothing && f != acked {
			return
		}
		s.drop()
	}
}

// packetSent puts p in flight. It must elicit an ack.
func (s *sentPackets) packetSent(p *sentPacket, now time.Duration) {
	p.fate = flying
	s.inFlight += p.size
	s.flying++
	s.lastAsk = now
}

// keepAliveAt returns when a keep-alive is due, unless an ack-eliciting packet is sent first.
// every is the interval of keep-alives. ok is false if every is 0, or if a packet is in flight.
func (s *sentPackets) keepAliveAt(every time.Duration) (at time.Duration, ok bool) {
	return s.lastAsk + every, every > 0 && s.flying == 0
}

// decide sets the fate of p, and takes it out of flight.
func (s *sentPackets) decide(p *sentPacket, f fate) {
	if p.fate == flying {
		s.inFlight -= p.size
		s.flying--
	}
	switch {
	case f == lost:
		s.lossRate += (1 - s.lossRate) / lossSpan
	case p.fate == lost:
		// The packet was only late, so take back what we added for its loss.
		s.lossRate = max(0, s.lossRate-1.0/lossSpan)
	default:
		s.lossRate -= s.lossRate / lossSpan
	}
	p.fate = f
}

// truncate undoes add for a packet that was not sent after all, along with the skipped number
// before it, if there is one. next becomes the number of the next packet.
func (s *sentPackets) truncate(next uint64) {
	s.Next = next
	s.undecided = min(s.undecided, s.Next)
}

// skippedAfter returns the number of packet numbers that were skipped between n and the third
// packet sent after it. Skipped numbers mustn't count toward the packet threshold, because they
// never overtook n. There may be several consecutive ones if the carrier refused packets. (RFC
// 9002, section 6.1.1)
func (s *sentPackets) skippedAfter(n uint64) (count uint64) {
	for next := n + 1; next < min(n+minSkip+count, s.Next); next++ {
		if s.At(next).fate == skipped {
			count++
		}
	}
	return count
}

// dropExpired drops the oldest records, up to the first that is in flight, or that is lost or
// skipped but must be kept for longer.
func (s *sentPackets) dropExpired(now time.Duration) {
	s.firstFlying()
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
	s.firstFlying()
	return int(s.Next - s.undecided)
}

// firstFlying returns the number of the oldest packet in flight. ok is false if there's none.
func (s *sentPackets) firstFlying() (n uint64, ok bool) {
	// Continue where the last call stopped.
	s.undecided = max(s.undecided, s.Oldest)
	for ; s.undecided < s.Next; s.undecided++ {
		if s.At(s.undecided).fate == flying {
			return s.undecided, true
		}
	}
	return 0, false
}

// oldestArrived returns the oldest packet in flight, provided that the carrier has reported
// its arrival. Otherwise ok is false.
func (s *sentPackets) oldestArrived() (n uint64, p *sentPacket, ok bool) {
	n, ok = s.firstFlying()
	if !ok {
		return 0, nil, false
	}
	p = s.At(n)
	return n, p, p.arrived != 0
}
