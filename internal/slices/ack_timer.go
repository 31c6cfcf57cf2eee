package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// An ackTimer decides when a receiver sends acks. The receiver may be nil before the first
// ask, because no ack is due then.
type ackTimer struct {
	pace     ackPace
	asking   int       // slices since the last ack
	deadline time.Time // when the next ack is due, if asking > 0
	draining bool      // acks are being sent, one for each chunk with newly arrived slices
}

// An ackPace says when to send an ack: at once after every slices, otherwise after delay.
type ackPace struct {
	every int
	delay time.Duration
}

var (
	// gatedAcks is the pace on a path that does not report whether packets arrive. Such acks
	// cost little. They are small, and quic-go acks every second packet and sends both acks
	// in one packet.
	gatedAcks = ackPace{every: 8, delay: ackDelay}
	// fatedAcks is the pace on a path that reports whether packets arrive. One ack covers a
	// full part, because the carrier's feedback covers single packets.
	fatedAcks = ackPace{every: PartSlices, delay: 20 * time.Millisecond}
)

// ackDelay is the maximum delay of an ack on a path that does not report fates.
const ackDelay = 2 * time.Millisecond

// ask counts a slice that has arrived. open is the number of incomplete chunks. If there are
// none, an ack is due at once, because this end expects no more slices.
func (t *ackTimer) ask(now time.Time, open int) {
	t.asking++
	switch {
	case t.asking >= t.pace.every || open == 0:
		t.deadline = now
	case t.asking == 1:
		t.deadline = now.Add(t.pace.delay)
	}
}

// dueAt returns the time at which an ack is due. ok is false if none is due.
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
