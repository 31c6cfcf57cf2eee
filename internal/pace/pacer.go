package pace

import "time"

const (
	// burstTime is how far a sender may fall behind the rate and still catch up if it had nothing
	// to send or its window was full. It then sends at once what the rate allows in this time.
	burstTime = time.Millisecond

	// lateTime is the same for a sender that waited only for the pacer and whose timer fired late.
	// It may catch up on more, as long as the resulting queue is so short that we ignore it
	// (minStanding).
	lateTime = minStanding
)

// A pacer spaces packets out. The next packet is due when the previous one has had time to be sent
// at the rate.
//
// It's a leaky bucket whose size is burstTime or lateTime, except that it stores a time instead of
// a level.
type pacer struct {
	next   instant // when the next packet is due
	waited bool    // the sender waits for next, not for the window (see Next) or data (see Limited)
}

// sent schedules the next packet after one that is sent at t. late is set if the timer fired too
// late to catch up.
func (p *pacer) sent(t instant, size int, rate float64) (late bool) {
	burst := burstTime
	if p.waited {
		burst = lateTime
		late = p.next < t-burst
	}
	p.next = max(p.next, t-burst) + sendTime(size, rate)
	return late
}

// sendTime returns how long bytes take at a rate in bytes per second, rounded up, or defaultRTT
// if the rate is 0.
func sendTime(bytes int, rate float64) time.Duration {
	if rate <= 0 {
		return defaultRTT
	}
	return time.Duration(min(float64(bytes)/rate*1e9, 1e18)) + 1
}
