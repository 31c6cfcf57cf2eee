package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// An ackTimer decides when a receiver sends acks. The receiver may be nil before the first call of
// ask, because no ack is due yet.
type ackTimer struct {
	pace     ackPace
	asking   int       // slices that arrived since the last ack
	deadline time.Time // when an ack is due, if asking > 0
	draining bool      // acks are being sent, one for each chunk that has received slices
}

// An ackPace says how often to send an ack: as soon as that many slices (every) have arrived, or
// delay after the first of them, whichever comes first.
type ackPace struct {
	every int
	delay time.Duration
}

var (
	// quickAcks is the pace on a path that doesn't report fates, where the peer's window and its
	// loss detection depend on our acks. They cost little, because they are small: quic-go acks
	// every second packet anyway, and puts its own ack and ours into the same packet.
	quickAcks = ackPace{every: 8, delay: ackDelay}

	// rareAcks is the pace on a path that does report fates. One ack per full part is enough there,
	// since the carrier's own feedback covers every packet and our acks only free memory.
	rareAcks = ackPace{every: SlicesPerPart, delay: 20 * time.Millisecond}
)

// ackDelay is the maximum delay of an ack on a path that doesn't report fates. The peer's loss
// detection allows for it, so it has to be short compared with a round trip.
const ackDelay = 2 * time.Millisecond

// ask counts a slice that arrived. incomplete is the number of incomplete chunks. If it's 0, an ack
// is due at once, since we don't expect any more slices.
func (t *ackTimer) ask(now time.Time, incomplete int) {
	t.asking++
	switch {
	case t.asking >= t.pace.every || incomplete == 0:
		t.deadline = now
	case t.asking == 1:
		t.deadline = now.Add(t.pace.delay)
	}
}

// dueAt returns when an ack is due, if one is.
func (t *ackTimer) dueAt() (at time.Time, ok bool) { return t.deadline, t.asking > 0 }

// next takes the next ack that is due. Once one is due, repeated calls return an ack for each chunk
// that has received slices.
func (t *ackTimer) next(now time.Time, r *chunk.Receiver) (chunk.Ack, bool) {
	if !t.draining && (t.asking == 0 || now.Before(t.deadline)) {
		return chunk.Ack{}, false
	}
	t.asking = 0
	a, ok := r.NextAck(now)
	t.draining = ok
	return a, ok
}
