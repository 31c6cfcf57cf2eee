package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// fate tells what became of a packet.
type fate uint8

const (
	nothing fate = iota // it asks for no ack, or never left
	flying              // it asks for an ack, and is neither acked nor lost
	lost                // its bunches leave again; a late ack still frees them
	acked
	skipped // its number was never sent: a peer that acks it invents acks
)

// item names the bytes of one entry that a packet carried.
type item struct {
	channel  *channel
	sequence uint64
	off, end uint16
	first    bool // the bytes had not left before
}

// packet is the record of a sent packet. It stays until the fate is known, and lostMemory PTOs longer when that is lost or skipped.
type packet struct {
	fate      fate
	limit     bool          // it carried a limit
	acks      bool          // it carried acks
	probe     bool          // it left as a probe, past the window
	loaded    bool          // it carried bunches
	prompt    bool          // it asked for an ack at once
	covers    uint64        // its acks name every packet that came with a lower number
	size      int           // bytes
	at        time.Duration // when it left
	arrived   time.Duration // when the carrier said that it arrived; 0 = it did not say
	items     []item        // bytes of reliable entries in it
	records   []uint64      // of the tracked messages in it, as given to SendTracked
	mark      recovery.Mark // the gate's
	lostUntil time.Duration // when the record of a lost or skipped packet is dropped
	below     uint64        // how many packets right below it have been acknowledged in one range with it
}

// sentPackets remembers the packets that wait for something, and those sent after them.
type sentPackets struct {
	recovery.Ring[packet]
	undecided uint64        // no packet with a lower number is flying
	inFlight  int           // bytes of flying packets
	flying    int           // number of flying packets
	lastAsk   time.Duration // when a packet last asked for an ack
	unasked   int           // packets with bulk since the last that asked for an ack at once
	loaded    int           // records of packets that carried bunches
	loss      float64       // smoothed share of packets lost, of some lossSpan packets
}

// lossSpan is the number of packets over which their loss is smoothed: nine seconds at 30 Hz.
const lossSpan = 256

// bareRecords is how many records there may be when few packets carried bunches: a peer can make this side send as many acks
// and limits as it likes. It is enough for two seconds with an ack each millisecond.
const bareRecords = 2048

// leastSent is the number of records for which a connection has room at first: the packets of a handshake, or of a tick of play.
const leastSent = 4

// full reports whether a record must be dropped before the next add. More than seenWindow would be of no use: the peer remembers no
// more packets.
func (s *sentPackets) full() bool {
	most := max(bareRecords, min(seenWindow, 8*s.loaded))
	if s.Len() < most {
		return false
	}
	s.forgetDecided()
	return s.Len() >= most
}

// roomForTwo reports whether add may be called twice before drop.
func (s *sentPackets) roomForTwo() bool { return s.Len() <= seenWindow-2 }

// drop forgets the oldest packet, whatever it waits for.
func (s *sentPackets) drop() {
	p := s.At(s.Oldest)
	s.unload(p)
	clear(p.items)
	s.Oldest++
}

// load notes that p carries bunches.
func (s *sentPackets) load(p *packet) {
	p.loaded = true
	s.loaded++
}

func (s *sentPackets) unload(p *packet) {
	if p.loaded {
		p.loaded = false
		s.loaded--
	}
}

// add makes room for the next packet and returns it with its items and records emptied.
func (s *sentPackets) add() *packet {
	if s.Len() == s.Cap() {
		s.forgetDecided()
	}
	p := s.Push(leastSent)
	*p = packet{items: p.items[:0], records: p.records[:0]}
	return p
}

// forgetDecided forgets packets from the old end that wait for nothing.
func (s *sentPackets) forgetDecided() {
	for s.Oldest < s.Next && (s.At(s.Oldest).fate == nothing || s.At(s.Oldest).fate == acked) {
		s.drop()
	}
}

// launched notes that p asks for an ack.
func (s *sentPackets) launched(p *packet, now time.Duration) {
	p.fate = flying
	s.inFlight += p.size
	s.flying++
	s.lastAsk = now
}

// keepAliveAt returns when a packet asks for an ack because none has for so long; 0 = none does.
func (s *sentPackets) keepAliveAt(every time.Duration) (time.Duration, bool) {
	return s.lastAsk + every, every > 0 && s.flying == 0
}

// decide takes p out of flight, if it was there: its fate is f.
func (s *sentPackets) decide(p *packet, f fate) {
	if p.fate == flying {
		s.inFlight -= p.size
		s.flying--
	}
	switch {
	case f == lost:
		s.loss += (1 - s.loss) / lossSpan
	case p.fate == lost: // it was late
		s.loss = max(0, s.loss-1.0/lossSpan)
	default:
		s.loss -= s.loss / lossSpan
	}
	p.fate = f
}

// takeBack takes the packets from number next on back, none of which was launched: the newest, and the number that was left out before it.
func (s *sentPackets) takeBack(next uint64) {
	s.Next = next
	s.undecided = min(s.undecided, s.Next)
}

// skippedAfter returns how many numbers were left out before the third packet after n: the packet threshold (RFC 9002, section 6.1.1) must not count
// them as packets that overtook n. A carrier that refuses packets may leave out several in a row.
func (s *sentPackets) skippedAfter(n uint64) (count uint64) {
	for next := n + 1; next < min(n+skipLeast+count, s.Next); next++ {
		if s.At(next).fate == skipped {
			count++
		}
	}
	return count
}

// forget drops decided packets from the old end.
func (s *sentPackets) forget(now time.Duration) {
	s.firstFlying()
	for s.Oldest < s.undecided {
		if p := s.At(s.Oldest); (p.fate == lost || p.fate == skipped) && now < p.lostUntil {
			return
		}
		s.drop()
	}
}

// spread returns how many packets there are from the oldest in flight to the newest.
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
