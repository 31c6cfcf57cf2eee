package pace

import "time"

// burstTime is how far a sender that wakes late may catch up: DESIGN.md 7 allows bursts of 1 ms of rate.
const burstTime = time.Millisecond

// pacer spaces packets.
type pacer struct {
	next instant // when the next packet is due
}

func (p *pacer) sent(t instant, size int, rate float64) {
	p.next = max(p.next, t-burstTime) + over(size, rate)
}
