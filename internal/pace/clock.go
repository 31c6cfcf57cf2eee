package pace

import "time"

// instant is a time, as a duration since an epoch: in a packet's record it takes 8 bytes instead of 24.
type instant = time.Duration

// furthest bounds instants, so that differences between a peer's times do not overflow.
const furthest instant = 1 << 60

// clock turns times of one clock into instants. They begin at 1, so that 0 can mean never.
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
