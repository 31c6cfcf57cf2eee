package netsim

import (
	"math/rand/v2"
	"time"
)

const (
	// pieTarget is the queue at which PIE aims, and pieUpdate the time between
	// two updates (RFC 8033, section 5.1).
	pieTarget, pieUpdate = 15 * time.Millisecond, 15 * time.Millisecond
	// pieBurst is for how long a new queue is tolerated without drops.
	pieBurst = 150 * time.Millisecond
	// pieAlpha and pieBeta are the gains for a second of queue beyond the
	// target, and for a second by which the queue has grown.
	pieAlpha, pieBeta = 0.125, 1.25
	// pieIdle is the time without a packet after which the state is reset.
	pieIdle = time.Minute
	// pieFew is a queue in bytes, of two packets, from which nothing is dropped.
	pieFew = 3000
	// pieStream is the stream of the seed from which PIE draws; dice draw from others.
	pieStream = 8033
)

// pie is the control law of RFC 8033, section 4: it drops the share of packets that
// keeps the queue at the target. The bottleneck asks it for each packet, in order.
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

// drops reports whether to drop a packet that is offered at now, if waiting
// bytes are queued and the last of them leaves at busy.
func (p *pie) drops(now, busy time.Time, waiting float64) bool {
	if now.Sub(p.next) > pieIdle {
		*p = pie{rng: p.rng, next: now, burst: pieBurst}
	}
	for ; !p.next.After(now); p.next = p.next.Add(pieUpdate) {
		p.look(max(busy.Sub(p.next), 0))
	}
	if p.burst > 0 || p.queue < pieTarget/2 && p.share < 0.2 || waiting <= pieFew {
		return false
	}
	if p.accrued += p.share; p.accrued < 0.85 || p.accrued < 8.5 && p.rng.Float64() >= p.share {
		return false
	}
	p.accrued = 0
	return true
}

// look updates the share by the queueing time, and by how much that has grown.
func (p *pie) look(queue time.Duration) {
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

// scaled limits a change of the share: the smaller the share, the smaller the steps.
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
