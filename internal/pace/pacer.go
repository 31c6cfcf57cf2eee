package pace

import "time"

const (
	// burstTime is how far a sender that had nothing to send, or whose window was closed, may fall behind the rate and still catch up: what
	// the rate allows in this time then leaves at once.
	burstTime = time.Millisecond
	// lateTime is the same for a sender that only waited for the pacer and that a timer woke late. It may catch up on more, but on no more than
	// makes a queue that the controller ignores (minStanding).
	lateTime = minStanding
)

// pacer spaces packets: each packet makes the next one due after the time that its bytes take at the rate. It is a leaky bucket of burstTime,
// or of lateTime, kept as a time in place of a level.
type pacer struct {
	next   instant // when the next packet is due
	waited bool    // the pacer has made the sender wait; Next clears it when the window is closed, Limited when there is nothing to send
}

// sent makes the next packet due after one of size bytes leaves at t. It reports whether the sender woke so late that it cannot catch up.
func (p *pacer) sent(t instant, size int, rate float64) (late bool) {
	burst := burstTime
	if p.waited {
		burst = lateTime
		late = p.next < t-burst
	}
	p.next = max(p.next, t-burst) + over(size, rate)
	return late
}

// over returns how long bytes take at a rate in bytes a second, rounded up.
func over(bytes int, rate float64) time.Duration {
	if rate <= 0 {
		return defaultRTT
	}
	return time.Duration(min(float64(bytes)/rate*1e9, 1e18)) + 1
}
