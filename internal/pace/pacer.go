package pace

import "time"

const (
	// burstTime of rate may leave at once: DESIGN.md 7.
	burstTime = time.Millisecond
	// lateTime of rate may leave at once when the sender has only waited for the pace and woke late: no more than what
	// counts as no queue.
	lateTime = minStanding
)

// pacer spaces packets.
type pacer struct {
	next   instant // when the next packet is due
	waited bool    // nothing else than the pace has held the sender up lately
}

// sent notes that a packet leaves, and reports whether the sender woke too late to make up for it.
func (p *pacer) sent(t instant, size int, rate float64) (late bool) {
	burst := burstTime
	if p.waited {
		burst = lateTime
		late = p.next < t-burst
	}
	p.next = max(p.next, t-burst) + over(size, rate)
	return late
}
