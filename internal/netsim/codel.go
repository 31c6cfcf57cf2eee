package netsim

import (
	"math"
	"time"
)

const (
	// codelTarget is the standing queue CoDel allows (RFC 8289, section 4.3).
	codelTarget = 5 * time.Millisecond
	// codelInterval is how long a queue must stand before CoDel drops packets
	// (RFC 8289, section 4.3).
	codelInterval = 100 * time.Millisecond
)

// codel is the control law of RFC 8289, section 5. The bottleneck asks it about each packet
// in order, with the time at which the packet would begin to leave. In a first-in, first-out
// queue, that time is known when the packet arrives.
type codel struct {
	above    time.Time // when the queue will have been above the target for an interval; zero if it is below
	dropping bool
	next     time.Time // when the next packet is dropped
	count    int       // drops since the last begin
	before   int       // count at the last begin
}

// drops reports whether to drop the packet that would begin to leave at now after waiting for
// waited. empty says whether no other packet is queued.
func (c *codel) drops(now time.Time, waited time.Duration, empty bool) bool {
	stands := c.stands(now, waited, empty)
	switch {
	case c.dropping && !stands:
		c.dropping = false
	case c.dropping && !now.Before(c.next):
		c.count++
		c.next = c.next.Add(c.spacing())
		return true
	case !c.dropping && stands:
		c.begin(now)
		return true
	}
	return false
}

// stands reports whether the queue has been above the target for an interval.
func (c *codel) stands(now time.Time, waited time.Duration, empty bool) bool {
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

// begin starts to drop packets. If it dropped some recently, it continues at about that rate.
func (c *codel) begin(now time.Time) {
	recent := now.Sub(c.next) < 16*codelInterval
	delta := c.count - c.before
	c.dropping = true
	c.count = 1
	if delta > 1 && recent {
		c.count = delta
	}
	c.next = now.Add(c.spacing())
	c.before = c.count
}

// spacing returns the time to the next drop. It shrinks with the square root of the
// number of drops, so that TCP's throughput falls linearly (RFC 8289, section 3.3).
func (c *codel) spacing() time.Duration {
	return time.Duration(float64(codelInterval) / math.Sqrt(float64(c.count)))
}
