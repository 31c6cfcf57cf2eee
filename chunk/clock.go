package chunk

import (
	"math"
	"time"
)

// never is later than any time.
const never = time.Duration(math.MaxInt64)

// A clock keeps a machine's time as a duration since the first time that was
// set, which takes a third of the memory. It never runs back.
type clock struct {
	epoch time.Time
	now   time.Duration
	runs  bool
}

// set sets the time.
func (c *clock) set(now time.Time) {
	if !c.runs {
		c.epoch, c.runs = now, true
	}
	c.now = max(c.now, now.Sub(c.epoch))
}

// time converts a duration to a time. Before the first set it returns the zero
// time, which means at once.
func (c *clock) time(d time.Duration) time.Time {
	if !c.runs {
		return time.Time{}
	}
	return c.epoch.Add(d)
}
