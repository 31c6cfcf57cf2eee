package pace

import "time"

const (
	// burstTime: as many bytes as the rate has for this time may leave at once.
	burstTime = time.Millisecond
	// lateTime is burstTime for a sender that has waited for nothing but the pacer and woke late: no more than counts as no queue.
	lateTime = minStanding
)

// pacer spaces packets.
type pacer struct {
	next   instant // when the next packet is due
	waited bool    // the sender has waited for nothing but the pacer since the last packet
}

// sent notes that a packet leaves, and reports whether the sender woke too late to make up for the lost time.
func (p *pacer) sent(t instant, size int, rate float64) (late bool) {
	burst := burstTime
	if p.waited {
		burst = lateTime
		late = p.next < t-burst
	}
	p.next = max(p.next, t-burst) + over(size, rate)
	return late
}
