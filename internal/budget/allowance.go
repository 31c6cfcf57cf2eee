package budget

import (
	"sync"
	"time"
)

// An Allowance limits how fast one connection may send, counting all its carriers together. It
// implements [link.Rate] and [sealed.Rate], and is safe for concurrent use.
type Allowance struct {
	own, world *Meter // nil if there is no limit

	mu   sync.Mutex // guards the fields below
	turn time.Time  // when the world's rate lets us send bulk; zero if we have no turn
	open bool       // the last Bulk let us send, so the next Spend uses up the turn
	held time.Time  // since when bulk has been held back; zero if it isn't
}

// NewAllowance returns the allowance of a connection, whose own rate in bytes per second is 0 if
// it has none. world is the meter of its world.
func NewAllowance(rate int, world *Meter) *Allowance {
	return &Allowance{own: NewMeter(rate), world: world}
}

// Limited reports whether there is any limit.
func (a *Allowance) Limited() bool { return a.own != nil || a.world != nil }

// Most returns the lower of the connection's and the world's rate, in bytes per second. It is 0
// if there is no limit.
func (a *Allowance) Most() (rate int) {
	for _, m := range []*Meter{a.own, a.world} {
		if m != nil && (rate == 0 || m.rate < rate) {
			rate = m.rate
		}
	}
	return rate
}

// Play implements link.Rate.
func (a *Allowance) Play(now time.Time) time.Duration { return a.Behind(now, 0) }

// Behind returns how long unreliable data must wait, given that queued bytes are sent first.
func (a *Allowance) Behind(now time.Time, queued int) time.Duration {
	return max(a.own.play(now, queued), a.world.play(now, queued))
}

// Bulk implements link.Rate.
func (a *Allowance) Bulk(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := max(a.own.bulk(now), a.world.bulk(now))
	if a.world != nil {
		if a.turn.IsZero() {
			a.turn = a.world.book(now)
		}
		wait = max(wait, a.turn.Sub(now))
	}
	switch {
	case wait <= 0:
		a.held = time.Time{}
		a.open = true
		return 0
	case a.held.IsZero():
		a.held = now
	}
	// Bulk needn't wait for longer than this, even if play has used up the rate.
	wait = min(wait, max(0, a.held.Add(bulkPatience).Sub(now)))
	a.open = wait == 0
	return wait
}

// Spend implements link.Rate.
func (a *Allowance) Spend(now time.Time, size int) {
	a.own.spend(now, size)
	a.world.spend(now, size)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.open {
		// Bulk hasn't allowed this datagram, so it isn't the one that our turn is for.
		return
	}
	a.turn = time.Time{}
	a.open = false
	if now.Sub(a.held) >= bulkPatience {
		// Our patience has paid off. It has to run out again before the next such datagram.
		a.held = time.Time{}
	}
}
