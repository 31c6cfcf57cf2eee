package bunch

import "time"

const (
	// meanSkip is the mean distance between packet numbers that are left out. Each costs an
	// immediate ack from the peer, and two bytes in the peer's acks until one of them is
	// acknowledged. That is at most one more packet in 500.
	meanSkip = 500
	// minSkip is the minimum distance: one more than the packet threshold of 3 (RFC 9002,
	// section 6.1.1). At most one of the numbers that the threshold counts is therefore
	// left out, unless the carrier has refused packets.
	minSkip = 4
)

// skips chooses packet numbers that are never sent. To the peer they look like lost
// packets.
//
// A peer may acknowledge packets that it has not received, to make this side send faster
// than the path allows. Sooner or later it then acknowledges one of these numbers (RFC
// 9000, section 21.4).
type skips struct {
	random func(n int) int // nil = no number is left out
	next   uint64          // the next number to leave out; a later one if there is no room for it
}

func (s *skips) init(random func(n int) int) {
	s.random = random
	s.draw(0)
}

// draw chooses the next number after last to leave out.
func (s *skips) draw(last uint64) {
	if s.random != nil {
		s.next = last + minSkip + uint64(s.random(2*(meanSkip-minSkip)+1))
	}
}

// launched records that packet n was sent. If the number last chosen was left out before
// it, launched chooses the next one.
func (s *skips) launched(n uint64) {
	if n > s.next {
		s.draw(n)
	}
}

// skipNumber leaves out the next packet number if it was chosen. Its record is kept as long
// as that of a lost packet.
func (c *Conn) skipNumber(t time.Duration) {
	if c.skips.random == nil || c.sent.Next < c.skips.next || !c.sent.roomForTwo() {
		return
	}
	p := c.sent.add()
	p.fate = skipped
	p.at = t
	p.lostUntil = t + lostMemory*c.pto()
}
