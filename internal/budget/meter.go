// Package budget divides a world's resources among its connections: the rate at which the world
// may send, the memory for received reliable messages that have to wait, and the memory for
// transfers in both directions. It also limits the rates of calls. "UE:" names the counterpart in
// Unreal Engine, whose documentation then explains the purpose.
package budget

import (
	"sync"
	"time"
)

const (
	// idleSavings is the time for which an idle meter saves up, so that a burst of one tick never
	// waits. UE: at most two ticks, 66 ms at 30 Hz.
	idleSavings = 66 * time.Millisecond

	// Floor is the number of bytes that any meter can save up, however slow its rate. It's
	// enough for two datagrams of play (the game's own traffic: everything but bulk) and two of
	// bulk. With less, a slow rate could never send a datagram.
	Floor = 6000

	// turnBytes is the number of bytes that a connection may send in its turn at the world's
	// rate. It's about one datagram.
	turnBytes = 1300

	// bulkPatience is the maximum time for which play can keep a connection from sending any bulk
	// by using up a rate. After that, the connection may send a datagram, which may also contain
	// acks for its own downloads. A second is short enough to keep the transfers on both sides
	// alive.
	bulkPatience = time.Second
)

// A Meter limits a rate in bytes per second. It works like a token bucket, but instead of
// tokens it stores the time when everything sent will have been paid for. A nil Meter has no
// limit. UE: QueuedBits, CurrentNetSpeed.
type Meter struct {
	rate    int           // never changes
	savings time.Duration // the time for which an idle meter saves up; never changes

	mu    sync.Mutex // guards the fields below
	paid  time.Time  // when everything sent is paid for; counts as now-savings if earlier
	turn  time.Time  // time of the next turn that isn't taken yet
	users users      // the connections among which a world's rate is divided
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

// time returns the time that size bytes take at the meter's rate, rounded up.
func (m *Meter) time(size int) time.Duration {
	cost, rate := int64(size)*int64(time.Second), int64(m.rate)
	if cost%rate > 0 { // adding rate-1 instead could overflow
		return time.Duration(cost/rate + 1)
	}
	return time.Duration(cost / rate)
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

// play returns how long unreliable data must wait if queued bytes are sent first. UE:
// IsNetReady.
func (m *Meter) play(now time.Time, queued int) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, later(m.paid, now.Add(-m.savings)).Add(m.time(queued)).Sub(now))
}

// bulk returns how long bulk must wait. Bulk can't use the second half of the savings, so
// there's always something left for a call.
func (m *Meter) bulk(now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.paid.Sub(now.Add(-m.savings/2)))
}

// book takes the next turn on behalf of a connection with bulk. Turns are handed out in order,
// so that waiting connections get equal shares.
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
