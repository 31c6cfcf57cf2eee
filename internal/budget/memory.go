package budget

import "sync"

// Memory shares the memory for reliable messages that wait here among the connections of a world. Each reserves its
// limit as a whole, so that the sum holds whatever peers do.
type Memory struct {
	mu       sync.Mutex
	total    int // bytes
	least    int // of a connection
	reserved int
	expected int // connections that may come yet; negative while those that make room have not left
}

// NewMemory returns total bytes for at most conns connections, each of which begins with least.
func NewMemory(total, least, conns int) *Memory {
	return &Memory{total: total, least: least, expected: conns}
}

// Enter reserves what a new connection begins with, and reports whether that was there.
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

// Grow makes a reservation of held bytes four times as large, at most limit, and returns the new one; the same when that
// would take more than half of what is free beside what is kept. Each step costs a transfer a round trip.
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

// Leave returns what a connection had reserved.
func (m *Memory) Leave(held int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= held
	m.expected++
}

// Reserved returns how many bytes the connections have reserved.
func (m *Memory) Reserved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserved
}

// kept returns what is not for those that grow, but for the connections that may come yet.
func (m *Memory) kept() int { return max(0, m.expected) * m.least }
