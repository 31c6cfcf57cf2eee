package rpc

import (
	"sync"
	"time"
)

const (
	// meterCredit is how long an idle meter saves up. UE: at most two ticks of credit, 66 ms at 30 Hz.
	meterCredit = 66 * time.Millisecond
	// meterFloor is the least credit in bytes: two datagrams for play beside two for bulk, else slow rates could never
	// send one.
	meterFloor = 6000
	// turnBytes is what a connection's turn at the world's rate is for: about a datagram.
	turnBytes = 1300
	// bulkPatience is the longest that a connection's bulk waits for a datagram's worth of a rate that play uses up: the
	// acks of its own downloads may be among it.
	bulkPatience = time.Second
)

// meter counts what leaves against a rate in bytes a second. UE: QueuedBits, CurrentNetSpeed. A nil meter has no limit.
type meter struct {
	rate   int
	credit time.Duration

	mu   sync.Mutex
	paid time.Time // when all that has left is paid for; up to credit in the past
	turn time.Time // of the next connection with bulk
}

// newMeter returns nil for rate 0.
func newMeter(rate int) *meter {
	if rate <= 0 {
		return nil
	}
	m := &meter{rate: rate}
	m.credit = max(meterCredit, m.time(meterFloor))
	return m
}

// time returns how long size bytes take, rounded up.
func (m *meter) time(size int) time.Duration {
	return time.Duration((int64(size)*int64(time.Second) + int64(m.rate) - 1) / int64(m.rate))
}

// spend counts bytes that leave, whether or not they are paid for.
func (m *meter) spend(now time.Time, size int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paid = later(m.paid, now.Add(-m.credit)).Add(m.time(size))
}

// play returns how long unreliable data must wait, when queued bytes leave before it. UE: IsNetReady.
func (m *meter) play(now time.Time, queued int) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, later(m.paid, now.Add(-m.credit)).Add(m.time(queued)).Sub(now))
}

// bulk returns how long bulk must wait: it leaves half of the credit to play, so that there is always some for a call.
func (m *meter) bulk(now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.paid.Sub(now.Add(-m.credit/2)))
}

// book returns a turn for a connection with bulk. Those that share the rate get as many turns as each other.
func (m *meter) book(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	turn := later(m.turn, now.Add(-m.credit/2))
	m.turn = turn.Add(m.time(turnBytes))
	return turn
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// allowance is what one connection may send, over all its carriers. It implements [link.Rate] and raw.Rate; its methods
// are safe from any goroutine.
type allowance struct {
	own, world *meter // nil = no limit

	mu   sync.Mutex
	turn time.Time // at the world's rate, zero = not booked
	open bool      // bulk was let go last, so that what leaves now uses the turn up
	held time.Time // since when bulk waits, zero = it does not
}

// allow returns what a new connection may send.
func (w *World) allow() *allowance { return &allowance{own: newMeter(w.config.Rate), world: w.rate} }

func (a *allowance) limited() bool { return a.own != nil || a.world != nil }

// most returns how many bytes a second the connection may send at most, 0 = no limit.
func (a *allowance) most() (rate int) {
	for _, m := range []*meter{a.own, a.world} {
		if m != nil && (rate == 0 || m.rate < rate) {
			rate = m.rate
		}
	}
	return rate
}

// Play implements link.Rate.
func (a *allowance) Play(now time.Time) time.Duration { return a.play(now, 0) }

// play returns how long unreliable data must wait behind queued bytes.
func (a *allowance) play(now time.Time, queued int) time.Duration {
	return max(a.own.play(now, queued), a.world.play(now, queued))
}

// Bulk implements link.Rate.
func (a *allowance) Bulk(now time.Time) time.Duration {
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
		a.held, a.open = time.Time{}, true
		return 0
	case a.held.IsZero():
		a.held = now
	}
	wait = min(wait, max(0, a.held.Add(bulkPatience).Sub(now)))
	a.open = wait == 0
	return wait
}

// Spend implements link.Rate.
func (a *allowance) Spend(now time.Time, size int) {
	a.own.spend(now, size)
	a.world.spend(now, size)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.open {
		return
	}
	a.turn, a.open = time.Time{}, false
	if now.Sub(a.held) >= bulkPatience {
		a.held = time.Time{}
	}
}
