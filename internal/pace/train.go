package pace

import "time"

const (
	// leastAhead is the least wait that a train attributes to others' packets:
	// a shorter one may be due to the hosts.
	leastAhead = time.Millisecond
	// leastSpan is how long a train must take at least to arrive, to show a
	// rate: a shorter span shows the receiver's interrupts, not the path.
	leastSpan = 100 * time.Microsecond
)

// Train is what a train of packets that were sent back to back has shown about the path.
type Train struct {
	Bytes int           // bytes that arrived after the first packet, including IP and UDP
	Span  time.Duration // time from the first arrival to the last
	Whole bool          // no packet was lost
	Trip  time.Duration // round trip of the first packet, without the time for which its ack was held back; 0 = unknown
	// Even is true if the packets arrived evenly. Otherwise jitter has spread them, or
	// they were gathered into clumps: then the path's rate is at least what they show.
	Even bool
}

// crowd returns how many connections seem to begin together, including this
// one. Trains do not mix in a bottleneck's queue, so each shows the whole rate.
// What the first packet of ours has waited for is other trains, and as many are
// assumed to follow it. base is the round trip from before; 0 = unknown.
func (t Train) crowd(base time.Duration) float64 {
	if ahead := t.Trip - base; base > 0 && ahead > leastAhead && t.Even {
		return 1 + 2*ahead.Seconds()/t.Span.Seconds()
	}
	return 1
}
