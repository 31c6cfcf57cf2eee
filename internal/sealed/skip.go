package sealed

import (
	"crypto/rand"
	mrand "math/rand/v2"
)

// skipAbout is the mean distance of skipped packet numbers.
const skipAbout = 500

// skips decides which packet numbers are skipped. An ack for one proves that the peer acks packets that it has not received, so that this
// end sends faster (RFC 9000, section 21.4).
type skips struct {
	next uint64 // the next number to skip
	dice *mrand.Rand
}

// init draws the first number to skip. A zero seed stands for a random one.
func (s *skips) init(seed [32]byte) {
	if seed == [32]byte{} {
		_, _ = rand.Read(seed[:]) // never fails
	}
	s.dice = mrand.New(mrand.NewChaCha8(seed))
	s.next = s.distance()
}

// draw draws the next number to skip, once packet number leaves.
func (s *skips) draw(number uint64) { s.next = number + s.distance() }

func (s *skips) distance() uint64 { return 1 + uint64(s.dice.IntN(2*skipAbout-1)) }
