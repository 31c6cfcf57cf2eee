package bunch

import "time"

const (
	// skipAbout is the mean distance of packet numbers that are left out. Each costs an immediate ack from the peer, and two bytes
	// in each of its acks until one of them is acknowledged: an extra packet in 500 at most.
	skipAbout = 500
	// skipLeast is the least distance: one more than the packet threshold of 3 (RFC 9002, 6.1.1), so that no more than one of the
	// numbers that it counts was left out.
	skipLeast = 4
)

// skips decides which packet numbers are never sent. To the peer they look like lost packets. A peer that acknowledges packets it has not
// received, so that this side sends faster than the path can take, sooner or later acknowledges one of them (RFC 9000, 21.4).
type skips struct {
	random func(n int) int // nil = none is left out
	about  int             // mean distance
	next   uint64          // the next number to leave out, or the first one after it for which there is room
}

func (s *skips) init(random func(n int) int) {
	s.random, s.about = random, skipAbout
	s.draw(0)
}

// draw decides which number after last is left out next.
func (s *skips) draw(last uint64) {
	if s.random != nil {
		s.next = last + skipLeast + uint64(s.random(2*(s.about-skipLeast)+1))
	}
}

// launched draws the next number to leave out, once packet n has left after the last one that was.
func (s *skips) launched(n uint64) {
	if n > s.next {
		s.draw(n)
	}
}

// skipNumber leaves the next packet number out when it is due. Its record stays as long as that of a lost packet.
func (c *Conn) skipNumber(t time.Duration) {
	if c.skips.random == nil || c.sent.Next < c.skips.next || !c.sent.roomForTwo() {
		return
	}
	p := c.sent.add()
	p.fate, p.at, p.lostUntil = skipped, t, t+lostMemory*c.pto()
}
