package chunk

import (
	"math"
	"time"
)

// never is later than any time.
const never = time.Duration(math.MaxInt64)

// A clock is the time last passed to a Sender or Receiver. It never goes backward.
//
// It is a duration since the first time set, which takes a third of the memory of a time.Time.
type clock struct {
	epoch time.Time     // first time set
	now   time.Duration // since epoch
	runs  bool          // whether epoch is set
}

// set advances the clock to now. It ignores a time earlier than the current one.
func (c *clock) set(now time.Time) {
	if !c.runs {
		c.epoch = now
		c.runs = true
	}
	c.now = max(c.now, now.Sub(c.epoch))
}

// time converts a duration since epoch to a time. Before the first call of set it returns
// the zero time, which callers take to mean immediately.
func (c *clock) time(d time.Duration) time.Time {
	if !c.runs {
		return time.Time{}
	}
	return c.epoch.Add(d)
}
