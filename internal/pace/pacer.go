package pace

import "time"

const (
	// burstTime is how far a sender may fall behind the rate and still catch up, if it had
	// nothing to send or if its window was closed. It then sends at once what the rate allows in
	// this time.
	burstTime = time.Millisecond

	// lateTime is the same for a sender that was only waiting for the pacer, and whose timer
	// fired too late. It may catch up on more than the others, up to a queue so short that we
	// ignore it (minStanding).
	lateTime = minStanding
)

// A pacer spaces packets out. The next one is due after as long as the bytes of the one before
// take at the rate.
//
// It's a leaky bucket with a size of burstTime or lateTime, except that it remembers a time
// instead of a level.
type pacer struct {
	next   instant // when the next packet is due
	waited bool    // it made the sender wait; not if the window was closed (Next), or nothing to send (Limited)
}

// sent schedules the next packet after one that is sent at t. late is true if the timer fired so
// late that we can't catch up any more.
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
