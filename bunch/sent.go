package bunch

import "time"

type fate uint8

const (
	nothing fate = iota // carries nothing that asks for an ack, or never left
	flying
	lost // its bunches were given back; a late ack still frees them
	acked
)

// item names the bytes of one entry that a packet carried.
type item struct {
	channel  *channel
	sequence uint64
	off, end uint16
}

// packet is what is kept of a packet until its fate is known, and of a lost one 3 PTO longer.
type packet struct {
	fate      fate
	bulk      bool // nothing but bulk
	limit     bool // carried a limit update
	probe     bool
	covers    uint64 // it acked all that came below this number
	size      int
	at        time.Duration
	items     []item
	rate      sample
	lostUntil time.Duration
}

// sentPackets is a ring of the packets numbered oldest to next-1.
type sentPackets struct {
	ring      []packet // len is a power of two
	oldest    uint64   // remembered
	undecided uint64   // no packet below it is flying
	next      uint64
	inFlight  int // bytes flying
	flying    int // packets flying
	lastAsk   time.Duration
}

func (s *sentPackets) get(n uint64) *packet { return &s.ring[n&uint64(len(s.ring)-1)] }

// add makes room for the next packet and returns it with its items emptied, or nil when seenWindow packets are undecided.
func (s *sentPackets) add() *packet {
	if int(s.next-s.oldest) == len(s.ring) && !s.grow() {
		return nil
	}
	p := s.get(s.next)
	*p = packet{items: p.items[:0]}
	s.next++
	return p
}

// grow makes room for another packet: by forgetting decided ones, else by more memory.
func (s *sentPackets) grow() bool {
	for s.oldest < s.next && (s.get(s.oldest).fate == nothing || s.get(s.oldest).fate == acked) {
		s.oldest++
	}
	if int(s.next-s.oldest) < len(s.ring) {
		return true
	}
	if len(s.ring) == seenWindow {
		if s.get(s.oldest).fate == flying {
			return false
		}
		s.oldest++
		return true
	}
	old := *s
	s.ring = make([]packet, max(16, 2*len(old.ring)))
	for n := old.oldest; n < old.next; n++ {
		*s.get(n) = *old.get(n)
	}
	return true
}

// launched notes that packet n asks for an ack.
func (s *sentPackets) launched(p *packet, now time.Duration) {
	p.fate, p.at = flying, now
	s.inFlight += p.size
	s.flying++
	s.lastAsk = now
}

// landed takes p out of flight.
func (s *sentPackets) landed(p *packet, f fate) {
	if p.fate == flying {
		s.inFlight -= p.size
		s.flying--
	}
	p.fate = f
}

// forget drops decided packets from the old end.
func (s *sentPackets) forget(now time.Duration) {
	s.undecided = max(s.undecided, s.oldest)
	for s.undecided < s.next && s.get(s.undecided).fate != flying {
		s.undecided++
	}
	for s.oldest < s.undecided {
		p := s.get(s.oldest)
		if p.fate == lost && now < p.lostUntil {
			return
		}
		clear(p.items)
		s.oldest++
	}
}

// spread is how many packets lie between the oldest undecided and the newest.
func (s *sentPackets) spread() int {
	s.firstFlying()
	return int(s.next - s.undecided)
}

// firstFlying returns the number of the oldest flying packet.
func (s *sentPackets) firstFlying() (uint64, bool) {
	s.undecided = max(s.undecided, s.oldest)
	for ; s.undecided < s.next; s.undecided++ {
		if s.get(s.undecided).fate == flying {
			return s.undecided, true
		}
	}
	return 0, false
}
