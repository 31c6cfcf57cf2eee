package sealed

import (
	"crypto/rand"
	mrand "math/rand/v2"
)

// meanSkip is the mean distance between skipped packet numbers.
const meanSkip = 500

// skips decides which packet numbers are skipped. An ack for a skipped number proves that
// the peer acks packets that it has not received, which would make this end send faster
// (RFC 9000, section 21.4).
type skips struct {
	next uint64 // the next number to skip
	rng  *mrand.Rand
}

// init draws the first number to skip. If seed is zero, it uses a random one.
func (s *skips) init(seed [32]byte) {
	if seed == [32]byte{} {
		_, _ = rand.Read(seed[:]) // never fails
	}
	s.rng = mrand.New(mrand.NewChaCha8(seed))
	s.next = s.distance()
}

// draw draws the next number to skip. It is called when the packet with the given number is
// sent.
func (s *skips) draw(number uint64) { s.next = number + s.distance() }

// distance returns a random distance from 1 to 2*meanSkip-1.
func (s *skips) distance() uint64 { return 1 + uint64(s.rng.IntN(2*meanSkip-1)) }
