package bunch

import "time"

const (
	// skipAbout is the mean distance between packet numbers that are left out.
	// Each costs an immediate ack of the peer, and two bytes in its acks until
	// one of those is acknowledged: at most one more packet in 500.
	skipAbout = 500
	// skipLeast is the least distance: one more than the packet threshold of 3
	// (RFC 9002, section 6.1.1). So at most one of the numbers that the
	// threshold counts was left out, unless the carrier has refused packets.
	skipLeast = 4
)

// skips chooses packet numbers that are never sent. To the peer they look like lost packets. A
// peer may acknowledge packets that it has not received, to make this side send faster than the
// path allows. Sooner or later it acknowledges one of these numbers (RFC 9000, section 21.4).
type skips struct {
	random func(n int) int // nil = no number is left out
	next   uint64          // the next number to leave out, or the first one after it for which there is room
}

func (s *skips) init(random func(n int) int) {
	s.random = random
	s.draw(0)
}

// draw chooses which number after last is left out next.
func (s *skips) draw(last uint64) {
	if s.random != nil {
		s.next = last + skipLeast + uint64(s.random(2*(skipAbout-skipLeast)+1))
	}
}

// launched chooses the next number to leave out, once packet n, after the last
// such number, was sent.
func (s *skips) launched(n uint64) {
	if n > s.next {
		s.draw(n)
	}
}

// skipNumber leaves out the next packet number if that is due. Its record is
// kept as long as that of a lost packet.
func (c *Conn) skipNumber(t time.Duration) {
	if c.skips.random == nil || c.sent.Next < c.skips.next || !c.sent.roomForTwo() {
		return
	}
	p := c.sent.add()
	p.fate, p.at, p.lostUntil = skipped, t, t+lostMemory*c.pto()
}
