package netsim

import (
	"sync"
	"time"
)

// bottleneck sends one packet after the other at a rate and lets a limited number of bytes wait. It works in times: the
// queue is full when a packet would leave later than a full queue takes to drain. Its lock is for links that share it.
type bottleneck struct {
	mu    sync.Mutex
	rate  int64         // bit/s; 0 = infinite
	limit time.Duration // what the queue holds takes so long to send

	busy time.Time // when the last packet will have left
	rest uint64    // the part of a nanosecond by which busy was rounded down, in 1/rate ns
}

func newBottleneck(rate int64, queue int) *bottleneck {
	b := &bottleneck{rate: rate}
	b.limit = b.drain(queue)
	return b
}

// drain returns how long so many bytes take to leave, rounded up.
func (b *bottleneck) drain(bytes int) time.Duration {
	if b.rate == 0 {
		return 0
	}
	n := uint64(bytes) * 8 * uint64(time.Second)
	return time.Duration((n + uint64(b.rate) - 1) / uint64(b.rate))
}

// offer queues a packet and returns when its last bit leaves. Not ok: the queue is full and the packet dropped.
func (b *bottleneck) offer(now time.Time, bytes int) (depart time.Time, ok bool) {
	if b.rate == 0 {
		return now, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	start, rest := b.busy, b.rest
	idle := !start.After(now)
	if idle {
		start, rest = now, 0
	}
	n := uint64(bytes)*8*uint64(time.Second) + rest
	depart = start.Add(time.Duration(n / uint64(b.rate)))
	if !idle && depart.Sub(now) > b.limit {
		return time.Time{}, false
	}
	b.busy, b.rest = depart, n%uint64(b.rate)
	return depart, true
}

// backlog returns how many bytes wait.
func (b *bottleneck) backlog(now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate == 0 || !b.busy.After(now) {
		return 0
	}
	return int(b.busy.Sub(now).Seconds() * float64(b.rate) / 8)
}

// below returns the earliest time from now on at which no more than so many bytes wait.
func (b *bottleneck) below(now time.Time, bytes int) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.busy.Add(-b.drain(bytes)); b.rate > 0 && t.After(now) {
		return t
	}
	return now
}
