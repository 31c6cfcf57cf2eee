// Package budget divides a world's resources among its connections: the rate at which the world
// may send, the memory for received reliable messages that have to wait, and the memory for
// transfers in both directions. It also limits the rates of calls.
package budget

import (
	"sync"
	"time"
)

const (
	// idleSavings is how long an idle meter saves up for. UE: at most two ticks, 66 ms at 30 Hz.
	idleSavings = 66 * time.Millisecond

	// Floor is how many bytes any meter can save up, however slow. It's enough for two datagrams of
	// play (the game's own traffic: everything but bulk) and two of bulk. With less than that, a
	// slow rate could never send a datagram.
	Floor = 6000

	// turnBytes is how many bytes a connection may send in its turn at the world's rate. It's about
	// one datagram.
	turnBytes = 1300

	// bulkPatience is for how long play, by using up a rate, can keep a connection from sending
	// bulk altogether. After that, the connection may send a datagram, which may also have acks
	// for its own downloads.
	bulkPatience = time.Second
)

// A Meter limits a rate in bytes per second. It works like a token bucket, except that it
// remembers when everything sent will have been paid for. A nil Meter has no limit. UE:
// QueuedBits, CurrentNetSpeed.
type Meter struct {
	rate    int           // never changes
	savings time.Duration // how far an idle meter saves up; never changes

	mu   sync.Mutex // guards the fields below
	paid time.Time  // when all that was sent is paid for; no further back than savings
	turn time.Time  // when the next turn is that isn't taken yet
}

// NewMeter returns a meter of rate bytes per second, or nil for rate 0.
func NewMeter(rate int) *Meter {
	if rate <= 0 {
		return nil
	}
	m := &Meter{rate: rate}
	m.savings = max(idleSavings, m.time(Floor))
	return m
}

// time returns how long size bytes take, rounded up.
func (m *Meter) time(size int) time.Duration {
	return time.Duration((int64(size)*int64(time.Second) + int64(m.rate) - 1) / int64(m.rate))
}

// spend counts bytes when they are sent, even if there are no savings for them.
func (m *Meter) spend(now time.Time, size int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paid = later(m.paid, now.Add(-m.savings)).Add(m.time(size))
}

// play returns how long unreliable data must wait, given that queued bytes are sent first. UE:
// IsNetReady.
func (m *Meter) play(now time.Time, queued int) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, later(m.paid, now.Add(-m.savings)).Add(m.time(queued)).Sub(now))
}

// bulk returns how long bulk must wait. It can't use the second half of the savings, so there's
// always something left for a call.
func (m *Meter) bulk(now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.paid.Sub(now.Add(-m.savings/2)))
}

// book takes the next turn on behalf of a connection with bulk. Turns are given out in order, so
// that the connections which are waiting get equal shares.
func (m *Meter) book(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	turn := later(m.turn, now.Add(-m.savings/2))
	m.turn = turn.Add(m.time(turnBytes))
	return turn
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
