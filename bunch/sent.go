package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

type fate uint8

const (
	nothing fate = iota // carries nothing that asks for an ack, or never left
	flying
	lost // its bunches were given back; a late ack still frees them
	acked
	skipped // the number was left out: an ack for it is made up
)

// item names the bytes of one entry that a packet carried.
type item struct {
	channel  *channel
	sequence uint64
	off, end uint16
	first    bool // they had not left before
}

// packet is what is kept of a packet until its fate is known, and of a lost or skipped one 3 PTO longer.
type packet struct {
	fate      fate
	limit     bool // carried a limit update
	probe     bool
	loaded    bool   // it carried bunches
	prompt    bool   // it asked for an ack at once
	covers    uint64 // it acknowledged all that came below this number
	size      int
	at        time.Duration
	items     []item
	mark      recovery.Mark
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
	unasked   int // packets with bulk since one asked for an ack at once
	loaded    int // packets remembered that carried bunches
}

// bareRecords is how many packets are remembered when few of them carried bunches: a peer can make this side send as many
// acks and limits as it likes. It is the acks of two seconds, one a millisecond.
const bareRecords = 2048

func (s *sentPackets) get(n uint64) *packet { return &s.ring[n&uint64(len(s.ring)-1)] }

// full reports whether add may only follow drop. The peer remembers no more packets than seenWindow.
func (s *sentPackets) full() bool {
	most := uint64(max(bareRecords, min(seenWindow, 8*s.loaded)))
	if s.next-s.oldest < most {
		return false
	}
	s.forgetDecided()
	return s.next-s.oldest >= most
}

// roomForTwo reports whether add may be called twice before drop.
func (s *sentPackets) roomForTwo() bool { return s.next-s.oldest <= seenWindow-2 }

// drop forgets the oldest packet, whatever it waits for.
func (s *sentPackets) drop() {
	p := s.get(s.oldest)
	s.unload(p)
	clear(p.items)
	s.oldest++
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

// add makes room for the next packet and returns it with its items emptied.
func (s *sentPackets) add() *packet {
	if int(s.next-s.oldest) == len(s.ring) {
		s.forgetDecided()
	}
	if int(s.next-s.oldest) == len(s.ring) {
		s.grow()
	}
	p := s.get(s.next)
	*p = packet{items: p.items[:0]}
	s.next++
	return p
}

// forgetDecided forgets packets from the old end that wait for nothing.
func (s *sentPackets) forgetDecided() {
	for s.oldest < s.next && (s.get(s.oldest).fate == nothing || s.get(s.oldest).fate == acked) {
		s.drop()
	}
}

func (s *sentPackets) grow() {
	old := *s
	s.ring = make([]packet, max(4, 2*len(old.ring)))
	for n := old.oldest; n < old.next; n++ {
		*s.get(n) = *old.get(n)
	}
}

// launched notes that p asks for an ack.
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

// takeBack takes the newest packet back, which was not launched, with the number that was left out before it.
func (s *sentPackets) takeBack() {
	s.next--
	if s.next > s.oldest && s.get(s.next-1).fate == skipped {
		s.next--
	}
	s.undecided = min(s.undecided, s.next)
}

// skippedAfter counts the numbers left out among the next three, which the packet threshold must not count.
func (s *sentPackets) skippedAfter(n uint64) (count uint64) {
	for next := n + 1; next < min(n+skipLeast, s.next); next++ {
		if s.get(next).fate == skipped {
			count++
		}
	}
	return count
}

// unsend takes the newest packet back; its number is used again.
func (s *sentPackets) unsend(p *packet, lastAsk time.Duration) {
	s.landed(p, nothing)
	s.unload(p)
	s.next--
	s.oldest, s.undecided = min(s.oldest, s.next), min(s.undecided, s.next)
	s.lastAsk = lastAsk
}

// forget drops decided packets from the old end.
func (s *sentPackets) forget(now time.Duration) {
	s.firstFlying()
	for s.oldest < s.undecided {
		if p := s.get(s.oldest); (p.fate == lost || p.fate == skipped) && now < p.lostUntil {
			return
		}
		s.drop()
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
