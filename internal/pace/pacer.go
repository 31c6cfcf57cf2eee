package pace

import "time"

const (
	// burstTime is the time by which a sender may fall behind the rate and still catch
	// up, if it had nothing to send or its window was closed. The bytes that the rate
	// allows in this time are then sent at once.
	burstTime = time.Millisecond
	// lateTime is the same for a sender that only waited for the pacer, and whose timer
	// fired late. Such a sender may catch up on more, but not on more than makes a queue
	// that the controller ignores (minStanding).
	lateTime = minStanding
)

// A pacer spaces packets. After each packet the next one is due once the time has passed
// that the packet's bytes take at the rate.
//
// It is a leaky bucket of burstTime, or of lateTime, stored as a time instead of a level.
type pacer struct {
	next instant // when the next packet is due
	// The pacer made the sender wait. Cleared by Next if the window is closed, and by
	// Limited if there is nothing to send.
	waited bool
}

// sent schedules the next packet after one of size bytes is sent at t. late reports
// whether the timer fired so late that the sender cannot catch up.
func (p *pacer) sent(t instant, size int, rate float64) (late bool) {
	burst := burstTime
	if p.waited {
		burst = lateTime
		late = p.next < t-burst
	}
	p.next = max(p.next, t-burst) + sendTime(size, rate)
	return late
}

// sendTime returns the time that bytes take at a rate in bytes per second, rounded up. If
// the rate is 0 it returns defaultRTT.
func sendTime(bytes int, rate float64) time.Duration {
	if rate <= 0 {
		return defaultRTT
	}
	return time.Duration(min(float64(bytes)/rate*1e9, 1e18)) + 1
}
