package netsim

import (
	"math/rand/v2"
	"time"
)

const (
	pieTarget = 15 * time.Millisecond // queueing time at which PIE aims (RFC 8033, section 5.1)
	pieUpdate = 15 * time.Millisecond // time between two updates (RFC 8033, section 5.1)
	// pieBurst is the time for which a new queue is tolerated without drops.
	pieBurst = 150 * time.Millisecond
	pieAlpha = 0.125 // gain for each second of queue beyond the target
	pieBeta  = 1.25  // gain for each second by which the queue has grown
	// pieIdle is the time without a packet after which the state is reset.
	pieIdle = time.Minute
	// pieFew is a queue in bytes, two packets, at or below which nothing is dropped.
	pieFew = 3000
	// pieStream is the seed's stream from which PIE draws. dice draw from other streams.
	pieStream = 8033
)

// pie is the control law of RFC 8033, section 4. It drops the share of packets that keeps the
// queue at the target. The bottleneck asks it about each packet in order.
type pie struct {
	rng     *rand.Rand
	next    time.Time     // when the next update is due
	queue   time.Duration // queueing time at the last update
	share   float64       // share of packets to drop
	burst   time.Duration // rest of pieBurst
	accrued float64       // sum of share over the packets since the last drop
}

func newPIE(seed uint64) *pie {
	return &pie{rng: rand.New(rand.NewPCG(seed, pieStream)), burst: pieBurst}
}

// drops reports whether to drop a packet offered at now. waiting is the number of queued
// bytes, the last of which leaves at busy.
func (p *pie) drops(now, busy time.Time, waiting float64) bool {
	if now.Sub(p.next) > pieIdle {
		*p = pie{rng: p.rng, next: now, burst: pieBurst}
	}
	for ; !p.next.After(now); p.next = p.next.Add(pieUpdate) {
		p.update(max(busy.Sub(p.next), 0))
	}
	if p.burst > 0 || p.queue < pieTarget/2 && p.share < 0.2 || waiting <= pieFew {
		return false
	}
	p.accrued += p.share
	if p.accrued < 0.85 || p.accrued < 8.5 && p.rng.Float64() >= p.share {
		return false
	}
	p.accrued = 0
	return true
}

// update adapts the share to the queueing time and to its growth.
func (p *pie) update(queue time.Duration) {
	change := p.scaled(pieAlpha*(queue-pieTarget).Seconds() + pieBeta*(queue-p.queue).Seconds())
	if queue > 250*time.Millisecond {
		change = 0.02
	}
	p.share = min(max(p.share+change, 0), 1)
	if queue == 0 && p.queue == 0 {
		p.share *= 0.98
	}
	p.burst = max(p.burst-pieUpdate, 0)
	if p.share == 0 && queue < pieTarget/2 && p.queue < pieTarget/2 {
		p.burst = pieBurst
	}
	p.queue = queue
}

// scaled limits a change of the share. The smaller the share, the smaller the steps.
func (p *pie) scaled(change float64) float64 {
	if p.share >= 0.1 {
		return min(change, 0.02)
	}
	change /= 2
	for limit := 0.01; p.share < limit && limit > 5e-7; limit /= 10 {
		change /= 4
	}
	return change
}
