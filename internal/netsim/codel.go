package netsim

import (
	"math"
	"time"
)

const (
	// codelTarget is the longest time in a standing queue that CoDel tolerates (RFC 8289, section
	// 4.3).
	codelTarget = 5 * time.Millisecond
	// codelInterval is how long the queue must be above the target before CoDel drops packets
	// (RFC 8289, section 4.3).
	codelInterval = 100 * time.Millisecond
)

// codel is the CoDel queue management of RFC 8289 (section 5). It drops packets, more and more
// often, for as long as there is a standing queue.
//
// CoDel decides about a packet when the packet leaves the queue. The bottleneck knows that time as
// soon as a packet arrives, because its queue is first-in, first-out. So it asks about each packet
// on arrival, in order.
type codel struct {
	above time.Time // when the queue will have been above the target for an interval; zero if below

	dropping bool
	next     time.Time // when to drop the next packet; if not dropping, when it would have been
	count    int       // drops since the last begin, including those that begin carried over
	before   int       // count at the last begin
}

// admit decides about a packet that would begin to leave at now, after a time of waited in the
// queue. It returns false if the packet must be dropped. empty says that no other packet is queued.
func (c *codel) admit(now time.Time, waited time.Duration, empty bool) bool {
	standing := c.noteWait(now, waited, empty)
	switch {
	case c.dropping && !standing:
		c.dropping = false
	case c.dropping && !now.Before(c.next):
		c.count++
		c.next = c.next.Add(c.spacing())
		return false
	case !c.dropping && standing:
		c.begin(now)
		return false
	}
	return true
}

// noteWait records how long a packet waited, and reports whether there is a standing queue, which
// has been above the target for an interval.
func (c *codel) noteWait(now time.Time, waited time.Duration, empty bool) bool {
	if waited < codelTarget || empty {
		c.above = time.Time{}
		return false
	}
	if c.above.IsZero() {
		c.above = now.Add(codelInterval)
		return false
	}
	return !now.Before(c.above)
}

// begin starts to drop packets. If packets were dropped recently, it continues at about the rate
// that was reached then.
func (c *codel) begin(now time.Time) {
	recent := now.Sub(c.next) < 16*codelInterval // as in RFC 8289, section 5
	delta := c.count - c.before
	c.dropping = true
	c.count = 1
	if delta > 1 && recent {
		c.count = delta
	}
	c.next = now.Add(c.spacing())
	c.before = c.count
}

// spacing returns the time until the next drop. It shrinks with the square root of the number of
// drops, which makes TCP's throughput fall linearly (RFC 8289, section 3.3).
func (c *codel) spacing() time.Duration {
	return time.Duration(float64(codelInterval) / math.Sqrt(float64(c.count)))
}
