package budget

import (
	"sync"
	"time"
)

// An Allowance limits how fast one connection may send, counting all its carriers together. It
// implements [link.Rate] and [sealed.Rate], and is safe for concurrent use.
type Allowance struct {
	own, world *Meter // nil if there is no limit

	mu   sync.Mutex // guards the fields below; taken before world.mu
	part part       // the connection's part of the world's rate
	turn time.Time  // when the world's rate allows us to send bulk; zero if we have no turn
	open bool       // the last BookBulk allowed us to send, so the next Spend uses up the turn
	held time.Time  // when bulk began to wait; zero if it isn't waiting
}

// NewAllowance returns the allowance of a connection. rate is the connection's own limit in
// bytes per second, or 0 for no limit. world is the meter of its world.
func NewAllowance(rate int, world *Meter) *Allowance {
	return &Allowance{own: NewMeter(rate), world: world, part: part{world: world}}
}

// Limited reports whether there is any limit.
func (a *Allowance) Limited() bool { return a.own != nil || a.world != nil }

// MaxRate returns the lower of the connection's and the world's rate, in bytes per second, or 0 if
// there is no limit.
func (a *Allowance) MaxRate() (rate int) {
	for _, m := range []*Meter{a.own, a.world} {
		if m != nil && (rate == 0 || m.rate < rate) {
			rate = m.rate
		}
	}
	return rate
}

// Play implements link.Rate.
func (a *Allowance) Play(now time.Time) time.Duration { return a.Behind(now, 0) }

// Behind returns how long unreliable data must wait if queued bytes are sent first.
func (a *Allowance) Behind(now time.Time, queued int) time.Duration {
	wait := a.world.play(now, queued)
	if wait > 0 {
		a.mu.Lock()
		defer a.mu.Unlock()
		wait = min(wait, a.part.play(now, queued))
	}
	return max(wait, a.own.play(now, queued))
}

// BookBulk implements link.Rate.
func (a *Allowance) BookBulk(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := a.own.bulk(now)
	if a.world != nil {
		if a.turn.IsZero() {
			a.turn = a.world.book(now)
		}
		wait = max(wait, min(max(a.world.bulk(now), a.turn.Sub(now)), a.part.bulk(now)))
	}
	if wait <= 0 {
		a.held = time.Time{}
		a.open = true
		return 0
	}
	if a.held.IsZero() {
		a.held = now
	}
	// Bulk never waits for longer than bulkPatience, even if play has used up the rate.
	wait = min(wait, max(0, a.held.Add(bulkPatience).Sub(now)))
	a.open = wait == 0
	return wait
}

// Spend implements link.Rate.
func (a *Allowance) Spend(now time.Time, size int) {
	a.own.spend(now, size)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.world != nil {
		a.part.spend(now, size, a.open)
	}
	if !a.open {
		// BookBulk didn't allow this datagram, so it doesn't use up our turn.
		return
	}
	a.turn = time.Time{}
	a.open = false
	if now.Sub(a.held) >= bulkPatience {
		// BookBulk allowed this datagram because bulkPatience had passed. It has to pass again
		// before the next such datagram.
		a.held = time.Time{}
	}
}
