package pace

import "time"

const (
	// leastAhead is the least queue that a train takes for others' packets: a smaller one may be the hosts'.
	leastAhead = time.Millisecond
	// leastSpan is the least time over which a train must arrive to show a rate: a shorter one shows the receiver's interrupts, not the path.
	leastSpan = 100 * time.Microsecond
)

// Train is what a train of packets that left back to back has shown of the path.
type Train struct {
	Bytes int           // that arrived after the first packet, with IP and UDP
	Span  time.Duration // from the first arrival to the last
	Whole bool          // nothing of it was lost
	Trip  time.Duration // round trip of the first packet, without the time for which its ack was held; 0 = unknown
	// Even says that the packets came evenly. Others were spread by jitter, or gathered into clumps: the path's rate is then at least what
	// they show.
	Even bool
}

// crowd returns how many seem to begin together, this one included: trains do not mix in a bottleneck's queue, so each shows the whole rate,
// and what the first packet of ours has waited is other trains; as many come behind it. base is the round trip from before; 0 = unknown.
func (t Train) crowd(base time.Duration) float64 {
	if ahead := t.Trip - base; base > 0 && ahead > leastAhead && t.Even {
		return 1 + 2*ahead.Seconds()/t.Span.Seconds()
	}
	return 1
}
