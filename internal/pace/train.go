package pace

import "time"

const (
	// minAhead is how long a train must wait for us to think that other packets were ahead of
	// it. Less than that may be due to the hosts.
	minAhead = time.Millisecond

	// minSpan is how long a train must take to arrive for it to show a rate. In less time we
	// only see the receiver's interrupts, and not the path.
	minSpan = 100 * time.Microsecond
)

// A Train is what packets sent back to back have shown about the path.
type Train struct {
	Bytes int           // how many arrived after the first packet, counting IP and UDP
	Span  time.Duration // from the first arrival to the last
	Whole bool          // no packet was lost
	Trip  time.Duration // round trip of the first packet, without the peer's ack delay; 0 = unknown

	// Even tells whether the packets arrived evenly. If not, jitter has spread them or they were
	// gathered into clumps, and the path's rate is at least what they show.
	Even bool
}

// crowd returns how many connections seem to be beginning together, including this one. base is
// the round trip from before, or 0 if unknown.
//
// Trains don't mix in a bottleneck's queue, so each of them shows the whole rate. Our first
// packet had to wait for the trains ahead of it, and we assume that as many come after it.
func (t Train) crowd(base time.Duration) float64 {
	if ahead := t.Trip - base; base > 0 && ahead > minAhead && t.Even {
		return 1 + 2*ahead.Seconds()/t.Span.Seconds()
	}
	return 1
}
