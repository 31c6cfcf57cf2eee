package pace

import "time"

const (
	// minAhead is the minimum wait that a train attributes to others' packets. A shorter
	// wait may be due to the hosts.
	minAhead = time.Millisecond
	// minSpan is the minimum time in which a train must arrive to show a rate. A shorter
	// span shows the receiver's interrupts, not the path.
	minSpan = 100 * time.Microsecond
)

// A Train is what packets that were sent back to back showed about the path.
type Train struct {
	Bytes int           // bytes that arrived after the first packet, including IP and UDP
	Span  time.Duration // time from the first arrival to the last
	Whole bool          // no packet was lost
	// Trip is the round trip of the first packet, without the time its ack was held back;
	// 0 = unknown.
	Trip time.Duration
	// Even is true if the packets arrived evenly. Otherwise jitter spread them, or they
	// were gathered into clumps. Then the path's rate is at least what they show.
	Even bool
}

// crowd returns the number of connections that seem to begin together, including this
// one. base is the round trip from before; 0 = unknown.
//
// Trains do not mix in a bottleneck's queue, so each shows the whole rate. Our first
// packet waited for other trains, and the same number of trains is assumed to follow it.
func (t Train) crowd(base time.Duration) float64 {
	if ahead := t.Trip - base; base > 0 && ahead > minAhead && t.Even {
		return 1 + 2*ahead.Seconds()/t.Span.Seconds()
	}
	return 1
}
