package netsim

import (
	"sync"
	"time"
)

// A bottleneck sends packets one after another at a limited rate, and queues a limited number of
// bytes in front of it.
//
// It holds no packets. Because none overtakes another, it can compute when a packet leaves as soon
// as the packet is offered, and needs to know only when the last one leaves.
//
// Its methods may be called concurrently, because several links may share a bottleneck.
type bottleneck struct {
	mu     sync.Mutex
	rates  timeline[int64] // bit/s; 0 if there is no bottleneck
	queue  int             // maximum bytes in the queue
	codel  *codel          // nil if not used
	pie    *pie            // nil if not used
	police *bucket         // nil if not used

	busyUntil time.Time // when the last packet leaves
	rest      uint64    // by how much busyUntil was rounded down to a nanosecond, in 1/rate ns
}

func newBottleneck(c Config) *bottleneck {
	b := new(bottleneck)
	b.reset(c)
	return b
}

// reset sets the rate, the queue, its management and the policer from c, for packets offered from
// now on. Packets in the queue leave as planned.
func (b *bottleneck) reset(c Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rates = always(c.Rate)
	b.queue = c.queue()
	b.codel = nil
	b.pie = nil
	b.police = nil
	if c.CoDel {
		b.codel = new(codel)
	}
	if c.PIE {
		b.pie = newPIE(c.Seed)
	}
	if c.Police > 0 {
		b.police = &bucket{rate: c.Police, size: float64(c.Bucket), tokens: float64(c.Bucket)}
	}
}

// setRate sets the rate to rate bit/s, starting at time at. Packets offered before the call leave
// as planned.
func (b *bottleneck) setRate(at time.Time, rate int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rates.set(at, rate)
}

// offer queues a packet and returns when its last bit leaves. ok is false if the packet is dropped,
// either by the policer, CoDel or PIE, or because the queue is full.
func (b *bottleneck) offer(now time.Time, bytes int) (depart time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rate := b.rates.advance(now)
	if b.police != nil && !b.police.admit(now, bytes) {
		return time.Time{}, false
	}
	if rate == 0 {
		return now, true // there is no bottleneck
	}

	// The packet begins to leave when the last one has left.
	start, rest := b.busyUntil, b.rest
	idle := !start.After(now)
	if idle {
		start, rest = now, 0
	}
	depart, rest = b.leave(start, rest, bytes)
	if !idle && b.carries(now, depart) > float64(b.queue)+blur {
		return time.Time{}, false
	}
	if b.codel != nil && !b.codel.admit(start, start.Sub(now), idle) {
		return time.Time{}, false
	}
	if b.pie != nil && !b.pie.admit(now, b.busyUntil, b.carries(now, b.busyUntil)) {
		return time.Time{}, false
	}
	b.busyUntil, b.rest = depart, rest
	return depart, true
}

// leave returns when a packet of the given size leaves that begins to leave at start. rest and
// newRest are what rounding cut off from start and depart, as in bottleneck.rest.
func (b *bottleneck) leave(start time.Time, rest uint64, bytes int) (depart time.Time, newRest uint64) {
	n := uint64(bytes)*8*uint64(time.Second) + rest // billionths of a bit, of which rate leave per ns
	for i, r := range b.rates {
		rate := uint64(r.value)
		depart = start.Add(time.Duration(n / rate))
		if i+1 == len(b.rates) || !depart.After(b.rates[i+1].at) {
			return depart, n % rate
		}
		if change := b.rates[i+1].at; change.After(start) {
			n -= uint64(change.Sub(start)) * rate
			start = change
		}
	}
	return depart, 0
}

// blur is an upper bound of the rounding error in the result of carries, in bytes.
const blur = 1e-6

// carries returns how many bytes can leave between two times, even if the rate changes in between.
func (b *bottleneck) carries(from, until time.Time) float64 {
	bits := 0.0
	for i, r := range b.rates {
		end := until
		if i+1 < len(b.rates) && b.rates[i+1].at.Before(until) {
			end = b.rates[i+1].at
		}
		if end.After(from) {
			bits += end.Sub(from).Seconds() * float64(r.value)
			from = end
		}
	}
	return bits / 8
}

// backlog returns the number of bytes in the queue.
func (b *bottleneck) backlog(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rates.advance(now) == 0 || !b.busyUntil.After(now) {
		return 0
	}
	return int(b.carries(now, b.busyUntil) + blur)
}
