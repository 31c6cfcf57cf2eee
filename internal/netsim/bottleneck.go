package netsim

import (
	"sync"
	"time"
)

// bottleneck sends one packet after another and queues a limited number of bytes. No packet
// overtakes another, so it computes a packet's departure when the packet is offered. mu also
// covers links that share the bottleneck.
type bottleneck struct {
	mu     sync.Mutex
	rates  timeline[int64] // bit/s; 0 = infinite
	queue  int             // maximum bytes in the queue
	codel  *codel          // nil if not used
	pie    *pie            // nil if not used
	police *bucket         // nil if not used

	busy time.Time // when the last packet leaves
	rest uint64    // fraction of a nanosecond by which busy was rounded down, in 1/rate ns
}

func newBottleneck(c Config) *bottleneck {
	b := new(bottleneck)
	b.reset(c)
	return b
}

// reset sets the rate, the queue with its management and the policer from c, for packets
// offered from now on.
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

// setRate sets the rate to rate bit/s from the time at on. Packets offered before the call
// leave as planned.
func (b *bottleneck) setRate(at time.Time, rate int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rates.set(at, rate)
}

// offer queues a packet and returns the time at which its last bit leaves. ok is false if the
// policer, the queue, CoDel or PIE drops the packet.
func (b *bottleneck) offer(now time.Time, bytes int) (depart time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rate := b.rates.now(now)
	if b.police != nil && !b.police.take(now, bytes) {
		return time.Time{}, false
	}
	if rate == 0 {
		return now, true
	}
	start, rest := b.busy, b.rest
	idle := !start.After(now)
	if idle {
		start, rest = now, 0
	}
	depart, rest = b.leave(start, rest, bytes)
	if !idle && b.carries(now, depart) > float64(b.queue)+blur {
		return time.Time{}, false
	}
	if b.codel != nil && b.codel.drops(start, start.Sub(now), idle) {
		return time.Time{}, false
	}
	if b.pie != nil && b.pie.drops(now, b.busy, b.carries(now, b.busy)) {
		return time.Time{}, false
	}
	b.busy, b.rest = depart, rest
	return depart, true
}

// leave returns the time at which the last of bytes bytes leaves if the first leaves at
// start. rest is described at bottleneck.rest.
func (b *bottleneck) leave(start time.Time, rest uint64, bytes int) (depart time.Time, newRest uint64) {
	n := uint64(bytes)*8*uint64(time.Second) + rest
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

// blur bounds the rounding error of sums of floating-point numbers, in bytes.
const blur = 1e-6

// carries returns the number of bytes that leave between two times.
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
	if b.rates.now(now) == 0 || !b.busy.After(now) {
		return 0
	}
	return int(b.carries(now, b.busy) + blur)
}
