package netsim

import (
	"math"
	"time"
)

const (
	// codelTarget is the standing queue that CoDel allows (RFC 8289, 4.3).
	codelTarget = 5 * time.Millisecond
	// codelInterval is how long a queue must stand until CoDel drops (RFC 8289, 4.3).
	codelInterval = 100 * time.Millisecond
)

// codel is the control law of RFC 8289, section 5. It is asked for each packet in the order of leaving, with the time at
// which that would begin to leave, which a queue of first in, first out knows when the packet comes.
type codel struct {
	above    time.Time // when the queue will have stood for an interval; zero = it is short
	dropping bool
	next     time.Time // drop
	count    int       // drops since dropping began
	before   int       // count when it began last
}

// drops reports whether the packet that would begin to leave at now after waiting so long is dropped. empty: nothing waits
// beside it.
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

// begin starts to drop, at the rate of the last time when that was not long ago.
func (c *codel) begin(now time.Time) {
	recent := now.Sub(c.next) < 16*codelInterval
	delta := c.count - c.before
	c.dropping, c.count = true, 1
	if delta > 1 && recent {
		c.count = delta
	}
	c.next = now.Add(c.spacing())
	c.before = c.count
}

func (c *codel) spacing() time.Duration {
	return time.Duration(float64(codelInterval) / math.Sqrt(float64(c.count)))
}
