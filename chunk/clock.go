package chunk

import (
	"math"
	"time"
)

// never is later than any time.
const never = time.Duration(math.MaxInt64)

// A clock is the latest time passed to a Sender or Receiver. It never goes backward.
//
// Times are durations since the first one, which need a third of the memory of a time.Time.
type clock struct {
	epoch   time.Time     // first time passed to set
	now     time.Duration // since epoch
	started bool          // epoch is set
}

// set advances the clock to now. It ignores a time earlier than the current one.
func (c *clock) set(now time.Time) {
	if !c.started {
		c.epoch = now
		c.started = true
	}
	c.now = max(c.now, now.Sub(c.epoch))
}

// time converts a duration since epoch to a time. Before the first call of set it returns the zero
// time, which means immediately.
func (c *clock) time(d time.Duration) time.Time {
	if !c.started {
		return time.Time{}
	}
	return c.epoch.Add(d)
}
