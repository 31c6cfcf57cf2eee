package bunch

import "time"

const (
	// meanSkip is the average distance between skipped numbers. The peer reacts to each skip with
	// an immediate ack, and its acks grow by two bytes until we acknowledge one of them, so the
	// overhead is about one packet in 500.
	meanSkip = 500

	// minSkip is the minimum distance. It's one more than the packet threshold of 3 (RFC 9002,
	// section 6.1.1), so that at most one of the numbers that the threshold counts is skipped,
	// unless the carrier refused packets.
	minSkip = 4
)

// skips picks packet numbers that are never sent. To the peer, it looks as if these packets were
// lost.
//
// This is our defense against a peer that acknowledges packets it hasn't received, to get us to
// send faster than the path allows (RFC 9000, section 21.4). Sooner or later, such a peer
// acknowledges one of these numbers.
type skips struct {
	random func(n int) int // nil if no numbers are skipped
	next   uint64          // the next number to skip, or the first after it that can be
}

func (s *skips) init(random func(n int) int) {
	s.random = random
	s.draw(0)
}

// draw picks the next number to skip after last.
func (s *skips) draw(last uint64) {
	if s.random != nil {
		s.next = last + minSkip + uint64(s.random(2*(meanSkip-minSkip)+1))
	}
}

// packetSent is called when packet n is sent. If n is beyond the number that we picked, we pick the
// next one.
func (s *skips) packetSent(n uint64) {
	if n > s.next {
		s.draw(n)
	}
}

// skipNumber skips the next packet number if it's the one we picked. We keep a record of it
// for as long as that of a lost packet.
func (c *Conn) skipNumber(t time.Duration) {
	if c.skips.random == nil || c.sent.Next < c.skips.next || !c.sent.roomForTwo() {
		return
	}
	p := c.sent.add()
	p.fate = skipped
	p.at = t
	p.lostUntil = t + lostRecordPTOs*c.pto()
}
