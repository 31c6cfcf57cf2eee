package pace

import "time"

const (
	// burstTime is how far a sender may fall behind the rate and still catch up, if it had nothing
	// to send or its window was closed: what the rate allows in this time is then sent at once.
	burstTime = time.Millisecond
	// lateTime is the same for a sender that has only waited for the pacer, and
	// whose timer fired late. It may catch up on more, but on no more than
	// makes a queue that the controller ignores (minStanding).
	lateTime = minStanding
)

// A pacer spaces packets: after each packet the next one is due once the time
// has passed that the packet's bytes take at the rate. It is a leaky bucket of
// burstTime, or of lateTime, kept as a time instead of a level.
type pacer struct {
	next instant // when the next packet is due
	// The pacer has made the sender wait; cleared by Next if the window is
	// closed, by Limited if there is nothing to send.
	waited bool
}

// sent makes the next packet due after one of size bytes is sent at t. It
// reports whether the timer fired so late that the sender cannot catch up.
func (p *pacer) sent(t instant, size int, rate float64) (late bool) {
	burst := burstTime
	if p.waited {
		burst = lateTime
		late = p.next < t-burst
	}
	p.next = max(p.next, t-burst) + over(size, rate)
	return late
}

// over returns how long bytes take at a rate in bytes a second, rounded up. If
// the rate is 0 it returns defaultRTT.
func over(bytes int, rate float64) time.Duration {
	if rate <= 0 {
		return defaultRTT
	}
	return time.Duration(min(float64(bytes)/rate*1e9, 1e18)) + 1
}
