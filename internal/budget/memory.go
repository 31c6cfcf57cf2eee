package budget

import "sync"

// Memory divides the memory for received reliable messages among the connections of a world.
// Each connection reserves its whole limit, so the sum stays below total whatever the peers
// send. Memory is safe for concurrent use.
type Memory struct {
	total  int // bytes
	least  int // bytes that Enter reserves for each connection
	forUse int // bytes that only Grow may use: half of total minus the least of all connections

	mu       sync.Mutex // guards the fields below
	reserved int        // bytes
	// Connections that may still enter. Negative while connections that must make room for
	// others have not left yet.
	expected int
}

// NewMemory returns a Memory of total bytes for at most conns connections, each of which
// starts with least bytes.
func NewMemory(total, least, conns int) *Memory {
	m := &Memory{total: total, least: least, expected: conns}
	m.forUse = (total - m.kept()) / 2
	return m
}

// Enter reserves least bytes for a new connection and reports whether they were free.
func (m *Memory) Enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.least > m.total-m.reserved {
		return false
	}
	m.reserved += m.least
	m.expected--
	return true
}

// joinShare limits the part of the free bytes that Join may add to one reservation to 1/16.
// With the default Config, the first connection gets its whole limit of 8 MiB. The 32nd gets
// 1.3 MiB, and the 100th gets 14 KiB beyond the least.
const joinShare = 16

// Join increases the reservation of a connection that has joined and returns it. It adds at
// most 1/joinShare of the free bytes, up to limit.
//
// So a first transfer can fill a long path at once; Grow would take two round trips for that.
// Join does not use forUse, so idle connections cannot reserve everything.
func (m *Memory) Join(limit int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	free := m.total - m.reserved - m.kept() - m.forUse
	more := min(limit-m.least, free/joinShare) &^ (1<<10 - 1)
	if more <= 0 {
		return m.least
	}
	m.reserved += more
	return m.least + more
}

// Grow multiplies a reservation of held bytes by four, up to limit, and returns it. If that
// takes more than half of the free bytes that are not kept for other connections, it changes
// nothing. The factor is large because each step costs a transfer a round trip.
func (m *Memory) Grow(held, limit int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	more := min(4*held, limit) - held
	if more <= 0 || more > (m.total-m.reserved-m.kept())/2 {
		return held
	}
	m.reserved += more
	return held + more
}

// Leave frees the held bytes that a connection reserved. It is called when the connection
// ends.
func (m *Memory) Leave(held int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= held
	m.expected++
}

// Reserved returns the number of bytes reserved by all connections.
func (m *Memory) Reserved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserved
}

// kept returns the number of bytes kept for connections that may still enter.
func (m *Memory) kept() int { return max(0, m.expected) * m.least }
