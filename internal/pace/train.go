package pace

import "time"

const (
	// leastAhead is the least queue that a train takes for others' packets: a smaller one may be the hosts'.
	leastAhead = time.Millisecond
	// following is how many come behind a train for each one that was ahead of it: as many, when they come in any order.
	following = 1
)

// Train is what a train of packets that left back to back has shown of the path.
type Train struct {
	Bytes int           // that arrived after the first packet, with IP and UDP
	Span  time.Duration // from the first arrival to the last
	Trip  time.Duration // round trip of the first packet, without the time for which its ack was held; 0 = unknown
	// Even says that the packets came evenly. Others were spread by jitter, or gathered into clumps: the path's rate is then at least what
	// they show.
	Even bool
}

// crowd returns how many seem to begin together, this one included: trains do not mix in a bottleneck's queue, so each shows the whole rate,
// and what the first packet of ours has waited is other trains. base is the round trip from before; 0 = unknown.
func (t Train) crowd(base time.Duration) float64 {
	if ahead := t.Trip - base; base > 0 && ahead > leastAhead && t.Even {
		return 1 + (1+following)*ahead.Seconds()/t.Span.Seconds()
	}
	return 1
}
