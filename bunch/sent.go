package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A fate is the outcome of sending a packet: whether it was acknowledged or lost.
type fate uint8

const (
	nothing fate = iota // elicits no ack, or was not sent yet
	flying              // elicits an ack, and is neither acked nor lost
	lost                // its bunches are sent again; a late ack still frees them
	acked
	skipped // a number left out on purpose, to detect invented acks (RFC 9000, section 21.4)
)

// item is a range of bytes of one entry that a packet carries.
type item struct {
	channel  *channel
	sequence uint64
	off, end uint16
	first    bool // the bytes had not been sent before
}

// packet is the record of a sent packet. It is kept until the fate is known. The record of
// a lost or skipped packet is kept for another lostMemory PTOs.
type packet struct {
	// How it was sent.
	size   int           // bytes
	at     time.Duration // time of sending
	mark   recovery.Mark // from the gate
	probe  bool          // sent as a probe, beyond the window
	prompt bool          // asks for an ack at once (flagAckNow)

	// What it carries.
	limit   bool     // carries a limit
	acks    bool     // carries acks
	loaded  bool     // carries bunches
	covers  uint64   // its acks name every packet received with a number below this
	items   []item   // ranges of reliable entries
	records []uint64 // of tracked messages, as given to SendTracked

	// What became of it.
	fate      fate
	arrived   time.Duration // when the carrier reported its arrival; 0 = not reported
	lostUntil time.Duration // when the record of a lost or skipped packet is dropped
	below     uint64        // number of packets right below it acknowledged in one range with it
}

// sentPackets holds the records of sent packets, from the oldest whose fate still matters
// to the newest.
type sentPackets struct {
	recovery.Ring[packet]
	undecided uint64        // no packet below this number is flying
	inFlight  int           // bytes of flying packets
	flying    int           // number of flying packets
	lastAsk   time.Duration // when an ack-eliciting packet was last sent
	unasked   int           // packets with bulk since the last one with flagAckNow
	loaded    int           // records of packets that carry bunches
	loss      float64       // share of packets lost, smoothed over lossSpan packets
}

// lossSpan is the number of packets over which the share of lost packets is smoothed: nine
// seconds at 30 Hz.
const lossSpan = 256

// bareRecords is the maximum number of records if few packets carry bunches. It is needed
// because a peer can make this side send any number of acks and limits. It is enough for
// two seconds with an ack each millisecond.
const bareRecords = 2048

// initialSent is the initial capacity in records: the packets of a handshake or of a tick
// of play.
const initialSent = 4

// full reports whether a record must be dropped before the next add. More than seenWindow
// records would be useless, because the peer remembers no more packets.
func (s *sentPackets) full() bool {
	limit := max(bareRecords, min(seenWindow, 8*s.loaded))
	if s.Len() < limit {
		return false
	}
	s.forgetDecided()
	return s.Len() >= limit
}

// roomForTwo reports whether add may be called twice before drop.
func (s *sentPackets) roomForTwo() bool { return s.Len() <= seenWindow-2 }

// drop removes the oldest record, whatever its fate.
func (s *sentPackets) drop() {
	p := s.At(s.Oldest)
	s.unload(p)
	clear(p.items)
	s.Oldest++
}

// load records that p carries bunches.
func (s *sentPackets) load(p *packet) {
	p.loaded = true
	s.loaded++
}

// unload undoes load when the record is dropped.
func (s *sentPackets) unload(p *packet) {
	if p.loaded {
		p.loaded = false
		s.loaded--
	}
}

// add returns an empty record for the next packet. It reuses the memory of items and
// records.
func (s *sentPackets) add() *packet {
	if s.Len() == s.Cap() {
		s.forgetDecided()
	}
	p := s.Push(initialSent)
	*p = packet{items: p.items[:0], records: p.records[:0]}
	return p
}

// forgetDecided drops the oldest records up to the first whose fate still matters.
func (s *sentPackets) forgetDecided() {
	for s.Oldest < s.Next {
		if f := s.At(s.Oldest).fate; f != nothing && f != acked {
			return
		}
		s.drop()
	}
}

// launched records that p, which elicits an ack, is sent now.
func (s *sentPackets) launched(p *packet, now time.Duration) {
	p.fate = flying
	s.inFlight += p.size
	s.flying++
	s.lastAsk = now
}

// keepAliveAt returns the time of the next keep-alive, which is sent if no ack-eliciting
// packet was sent for the interval every. If every is 0, there are no keep-alives.
func (s *sentPackets) keepAliveAt(every time.Duration) (at time.Duration, ok bool) {
	return s.lastAsk + every, every > 0 && s.flying == 0
}

// decide sets the fate of p to f. If p was flying, it is no longer in flight.
func (s *sentPackets) decide(p *packet, f fate) {
	if p.fate == flying {
		s.inFlight -= p.size
		s.flying--
	}
	switch {
	case f == lost:
		s.loss += (1 - s.loss) / lossSpan
	case p.fate == lost: // p was not lost but late
		s.loss = max(0, s.loss-1.0/lossSpan)
	default:
		s.loss -= s.loss / lossSpan
	}
	p.fate = f
}

// takeBack removes the records from number next on. None of their packets was sent. They
// are the newest record and perhaps a skipped number before it.
func (s *sentPackets) takeBack(next uint64) {
	s.Next = next
	s.undecided = min(s.undecided, s.Next)
}

// skippedAfter returns how many numbers were skipped between n and the third packet after
// it. The packet threshold (RFC 9002, section 6.1.1) must not count them as packets that
// overtook n. Several consecutive numbers are skipped if the carrier refuses packets.
func (s *sentPackets) skippedAfter(n uint64) (count uint64) {
	for next := n + 1; next < min(n+minSkip+count, s.Next); next++ {
		if s.At(next).fate == skipped {
			count++
		}
	}
	return count
}

// forget drops the oldest records. It stops at the first packet that is flying, or that is
// lost or skipped and not yet past lostUntil.
func (s *sentPackets) forget(now time.Duration) {
	s.firstFlying()
	for s.Oldest < s.undecided {
		if p := s.At(s.Oldest); (p.fate == lost || p.fate == skipped) && now < p.lostUntil {
			return
		}
		s.drop()
	}
}

// spread returns the number of packet numbers from the oldest flying packet to the newest
// packet.
func (s *sentPackets) spread() int {
	s.firstFlying()
	return int(s.Next - s.undecided)
}

// firstFlying returns the number of the oldest flying packet.
func (s *sentPackets) firstFlying() (uint64, bool) {
	s.undecided = max(s.undecided, s.Oldest)
	for ; s.undecided < s.Next; s.undecided++ {
		if s.At(s.undecided).fate == flying {
			return s.undecided, true
		}
	}
	return 0, false
}

// oldestArrived returns the oldest flying packet if the carrier has reported its arrival.
// Otherwise ok is false.
func (s *sentPackets) oldestArrived() (n uint64, p *packet, ok bool) {
	n, ok = s.firstFlying()
	if !ok {
		return 0, nil, false
	}
	p = s.At(n)
	return n, p, p.arrived != 0
}
