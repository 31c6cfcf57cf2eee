package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// An ackTimer decides when a receiver's acks are sent. The receiver may be nil
// before the first ask, because no ack is due.
type ackTimer struct {
	pace     ackPace
	asking   int       // slices since the last ack
	deadline time.Time // of the next ack, if asking > 0
	draining bool      // acks are being sent, one for each chunk of which slices have arrived
}

// An ackPace says when an ack is sent: at once after every slices, otherwise after delay.
type ackPace struct {
	every int
	delay time.Duration
}

var (
	// gatedAcks is the pace on a path that reports no fates. Such acks cost little: they are
	// small, and quic-go, which acks every second packet, sends its own acks in the same packets.
	gatedAcks = ackPace{every: 8, delay: ackDelay}
	// fatedAcks is the pace on a path that reports fates: one ack for a full
	// part, because the carrier's feedback covers single packets.
	fatedAcks = ackPace{every: PartSlices, delay: 20 * time.Millisecond}
)

// ackDelay is how long an ack is delayed at most on a path that reports no fates.
const ackDelay = 2 * time.Millisecond

// ask counts a slice that has arrived. open is the number of incomplete chunks. If there
// are none, an ack is due at once: as far as this end knows no more slices are in flight.
func (t *ackTimer) ask(now time.Time, open int) {
	t.asking++
	switch {
	case t.asking >= t.pace.every || open == 0:
		t.deadline = now
	case t.asking == 1:
		t.deadline = now.Add(t.pace.delay)
	}
}

// dueAt returns when an ack is due. ok is false if none is.
func (t *ackTimer) dueAt() (at time.Time, ok bool) { return t.deadline, t.asking > 0 }

// next returns the next ack that is due.
func (t *ackTimer) next(now time.Time, r *chunk.Receiver) (chunk.Ack, bool) {
	if !t.draining && (t.asking == 0 || now.Before(t.deadline)) {
		return chunk.Ack{}, false
	}
	t.asking = 0
	a, ok := r.NextAck(now)
	t.draining = ok
	return a, ok
}
