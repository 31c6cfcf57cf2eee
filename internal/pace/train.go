package pace

import "time"

const (
	// minAhead is how long a train must wait to show that other packets were ahead of it. Shorter
	// waits may be due to the hosts.
	minAhead = time.Millisecond

	// minSpan is how long a train must take to arrive to show a rate. A shorter time shows the
	// receiver's interrupts rather than the path.
	minSpan = 100 * time.Microsecond

	// A first flight opens with openingPackets packets at openingGain times the hint. If the hint
	// is right, their queue takes as long as six packets at that rate.
	openingPackets, openingGain = minLookPackets, 4

	// If these packets arrive at openingFound times the hint or more, the hint was wrong. Anything
	// less is left to the look that follows the flight.
	openingFound = 1.6

	// minOpeningPoints is how many points of the curve the opening must have to show a rate. Two
	// clumps only show how far apart they are.
	minOpeningPoints = 3
)

// A Train is what packets sent back to back showed about the path.
type Train struct {
	Bytes int           // bytes that arrived after the first packet, including IP and UDP headers
	Span  time.Duration // from the first arrival to the last
	Whole bool          // no packet was lost
	Trip  time.Duration // round trip of the first packet, without the peer's ack delay; 0 = unknown

	// Even tells whether the packets arrived evenly. If not, jitter has spread them or they were
	// gathered into clumps, and the path's rate is at least what they show.
	Even bool
}

// crowd returns how many connections, including this one, seem to begin together. base is the round
// trip measured before the train, or 0 if unknown.
//
// Trains don't mix in a bottleneck's queue, so each of them shows the whole rate. Our first packet
// had to wait for the trains ahead of it, and we assume that there are as many behind it.
func (t Train) crowd(base time.Duration) float64 {
	if ahead := t.Trip - base; base > 0 && ahead > minAhead && t.Even {
		return 1 + 2*ahead.Seconds()/t.Span.Seconds()
	}
	return 1
}

// An opening is the first packets of a first flight, which serve as another, shorter train. They
// are sent faster than the hint, to see whether the path carries more. The rest of the flight waits
// until the path has had time for them at the rate of the hint.
type opening struct {
	count int     // packets sent so far
	bytes int     // their bytes
	began instant // when the first of them was sent
	last  instant // when the newest of them was sent
}

// over reports whether all packets of the opening have been sent.
func (o *opening) over() bool { return o.count >= openingPackets }

// packetSent is called when a packet of the opening is sent at t.
func (o *opening) packetSent(t instant, size int) {
	if o.count == 0 {
		o.began = t
	}
	o.count++
	o.bytes += size
	o.last = t
}
