// Package budget divides a world's resources among its connections: the rate at which the
// world may send, the memory for received reliable messages that wait, and the memory for
// transfers in both directions. It also limits the rates of calls.
package budget

import (
	"sync"
	"time"
)

const (
	// idleSavings is the time that an idle meter saves up. UE: at most two ticks, 66 ms at 30
	// Hz.
	idleSavings = 66 * time.Millisecond
	// Floor is the minimum savings of a meter in bytes: two datagrams for play (game traffic:
	// everything but bulk) and two for bulk. With less, a slow rate could never send a
	// datagram.
	Floor = 6000
	// turnBytes is the number of bytes a connection may send in a turn at the world's rate.
	// It is about one datagram.
	turnBytes = 1300
	// bulkPatience limits how long a connection's bulk is held back while play uses up a
	// rate. After that time, one datagram is sent. It may contain acks of the connection's
	// own downloads.
	bulkPatience = time.Second
)

// A Meter compares the bytes sent with a rate in bytes per second. A nil Meter has no limit.
// UE: QueuedBits, CurrentNetSpeed.
type Meter struct {
	rate    int           // never changes
	savings time.Duration // maximum that an idle meter saves up; never changes

	mu   sync.Mutex // guards the fields below
	paid time.Time  // when all sent bytes are paid for; at most savings in the past
	turn time.Time  // the next free turn
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

// time returns the time size bytes take, rounded up.
func (m *Meter) time(size int) time.Duration {
	return time.Duration((int64(size)*int64(time.Second) + int64(m.rate) - 1) / int64(m.rate))
}

// spend counts bytes that are sent, whether or not there are savings for them.
func (m *Meter) spend(now time.Time, size int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paid = later(m.paid, now.Add(-m.savings)).Add(m.time(size))
}

// play returns the time unreliable data must wait if queued bytes are sent before it. UE:
// IsNetReady.
func (m *Meter) play(now time.Time, queued int) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, later(m.paid, now.Add(-m.savings)).Add(m.time(queued)).Sub(now))
}

// bulk returns the time bulk must wait. It leaves half of the savings to play, so a call
// always finds some.
func (m *Meter) bulk(now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.paid.Sub(now.Add(-m.savings/2)))
}

// book returns the next free turn for a connection with bulk. Turns are given out in order,
// so waiting connections get equal shares.
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
