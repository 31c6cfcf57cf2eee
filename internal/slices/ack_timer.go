package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
)

// ackTimer decides when the acks of a receiver leave. Before ask was called for the first time there need be no receiver: none is due.
type ackTimer struct {
	pace     ackPace
	asking   int       // slices since the last ack
	deadline time.Time // of the next ack, while asking
	draining bool      // acks leave, one for each chunk that has news
}

// ackPace is how many slices bring an ack at once, and the longest that one waits.
type ackPace struct {
	every int
	delay time.Duration
}

var (
	// gatedAcks are small, and quic-go, which acks every second packet, sends its own along with them.
	gatedAcks = ackPace{every: 8, delay: ackDelay}
	// fatedAcks are for a carrier whose own feedback tells of single packets: one for a full part.
	fatedAcks = ackPace{every: PartSlices, delay: 20 * time.Millisecond}
)

// ackDelay is the longest that the peer waits with an ack on a path that tells no fates.
const ackDelay = 2 * time.Millisecond

// ask counts a slice that came, while so many chunks are under way. An ack is due at once when none is, for as far as this end knows
// nothing more is on its way.
func (t *ackTimer) ask(now time.Time, open int) {
	t.asking++
	switch {
	case t.asking >= t.pace.every || open == 0:
		t.deadline = now
	case t.asking == 1:
		t.deadline = now.Add(t.pace.delay)
	}
}

// dueAt returns when an ack is due, if one is.
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

// ackAgain has a chunk acked again, whose ack was lost or never left.
func (t *ackTimer) ackAgain(id uint16, r *chunk.Receiver) {
	r.Repeat(id)
	t.draining = true
}

// ackAllAgain has all acked again that was acked lately.
func (t *ackTimer) ackAllAgain(r *chunk.Receiver) {
	r.Restart()
	t.draining = true
}
