package pace

import "time"

// instant is a time as what has passed since an epoch: 8 bytes in a packet's record in place of 24.
type instant = time.Duration

// furthest bounds instants, so that differences of what a peer says do not overflow.
const furthest instant = 1 << 60

// clock turns the times of one clock into instants that begin at 1, so that 0 is never.
type clock struct{ epoch time.Time }

func (c *clock) at(t time.Time) instant {
	if c.epoch.IsZero() {
		c.epoch = t.Add(-1)
	}
	return min(max(t.Sub(c.epoch), -furthest), furthest)
}

func (c *clock) time(i instant) time.Time { return c.epoch.Add(i) }

// over returns how long bytes take at a rate in bytes a second, rounded up.
func over(bytes int, rate float64) time.Duration {
	if rate <= 0 {
		return defaultRTT
	}
	return time.Duration(min(float64(bytes)/rate*1e9, 1e18)) + 1
}
