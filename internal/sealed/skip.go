package sealed

import (
	"crypto/rand"
	mrand "math/rand/v2"
)

// meanSkip is the mean distance between two skipped packet numbers. The gaps hardly lengthen
// reports, yet at 10 Mbit/s a number is skipped about twice a second.
const meanSkip = 500

// A numberSkipper decides which packet numbers we skip, to detect a peer that acks packets that
// it hasn't received in order to make us send faster (RFC 9000, section 21.4). The peer can't know
// which numbers were skipped, so sooner or later it acks one of them.
type numberSkipper struct {
	next uint64 // number to skip
	rng  *mrand.Rand
}

// init draws the first number to skip. If seed is zero, init uses a random one.
func (s *numberSkipper) init(seed [32]byte) {
	if seed == [32]byte{} {
		_, _ = rand.Read(seed[:]) // never fails
	}
	s.rng = mrand.New(mrand.NewChaCha8(seed))
	s.next = s.distance()
}

// draw draws the next number to skip. It is called when a packet is sent whose number is no
// smaller than the last one drawn.
func (s *numberSkipper) draw(number uint64) { s.next = number + s.distance() }

// distance returns a random distance from 1 to 2*meanSkip-1.
func (s *numberSkipper) distance() uint64 { return 1 + uint64(s.rng.IntN(2*meanSkip-1)) }
