package netsim

import (
	"math/rand/v2"
	"time"
)

const (
	pieTarget = 15 * time.Millisecond // queueing time at which PIE aims (RFC 8033, section 5.1)
	pieUpdate = 15 * time.Millisecond // time between two updates (RFC 8033, section 5.1)
	// pieBurst is how long PIE tolerates a new queue before it drops packets (RFC 8033, section
	// 4.4).
	pieBurst = 150 * time.Millisecond
	pieAlpha = 0.125 // gain for each second of queue beyond the target
	pieBeta  = 1.25  // gain for each second by which the queue has grown
	// pieIdle is how long a pause between packets must be for PIE to start over. It must be long
	// enough for the share to decay, and limits how many updates a pause causes.
	pieIdle = time.Minute
	// pieFew is the size in bytes of a queue of two packets, which is too short to drop any.
	pieFew = 3000
	// pieStream is the stream of random numbers for PIE. No dice may use it, because they would
	// draw the very numbers that decide other packets' fates.
	pieStream = 8033
)

// pie is the PIE queue management of RFC 8033. It drops packets at random, and adapts their share
// so that packets stay in the queue for about pieTarget (section 4). The bottleneck asks it about
// each packet, in order.
type pie struct {
	rng     *rand.Rand
	next    time.Time     // when the next update is due
	queue   time.Duration // queueing time at the last update
	share   float64       // share of packets to drop
	burst   time.Duration // how much of pieBurst remains
	accrued float64       // sum of share over the packets since the last drop
}

func newPIE(seed uint64) *pie {
	return &pie{rng: rand.New(rand.NewPCG(seed, pieStream)), burst: pieBurst}
}

// admit decides about a packet offered at now. It returns false if the packet must be dropped.
// waiting is the number of queued bytes, the last of which leaves at busy.
func (p *pie) admit(now, busy time.Time, waiting float64) bool {
	if now.Sub(p.next) > pieIdle {
		*p = pie{rng: p.rng, next: now, burst: pieBurst}
	}
	// Catch up with the updates that were due since the last packet. No packet has joined the
	// queue in the meantime, so we know how long it was then.
	for ; !p.next.After(now); p.next = p.next.Add(pieUpdate) {
		p.update(max(busy.Sub(p.next), 0))
	}
	isShort := p.queue < pieTarget/2 && p.share < 0.2 || waiting <= pieFew
	if p.burst > 0 || isShort {
		return true
	}

	// Spread the drops out: none until the shares add up to 0.85, and certainly one once they
	// add up to 8.5. We draw only in between.
	p.accrued += p.share
	if p.accrued < 0.85 || p.accrued < 8.5 && p.rng.Float64() >= p.share {
		return true
	}
	p.accrued = 0
	return false
}

// update adapts the share to how long queueing takes and how much longer than at the last update.
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
		p.burst = pieBurst // the path is uncongested, so the next queue counts as new
	}
	p.queue = queue
}

// scaled scales a change of the share down: the smaller the share, the smaller its steps.
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
