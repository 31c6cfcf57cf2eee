package budget

import "sync"

// Memory shares among the connections of a world the memory in which received reliable messages wait. Each reserves the whole of its
// limit, so that the sum stays within total whatever peers do.
type Memory struct {
	mu       sync.Mutex // guards reserved and expected
	total    int        // bytes
	least    int        // bytes with which a connection begins
	reserved int        // bytes
	expected int        // connections that may still come; negative while connections that make room have not left yet
	forUse   int        // bytes that only Grow gives: half of the total without the least of all connections
}

// NewMemory returns total bytes for at most conns connections, each of which begins with least.
func NewMemory(total, least, conns int) *Memory {
	m := &Memory{total: total, least: least, expected: conns}
	m.forUse = (total - m.kept()) / 2
	return m
}

// Enter reserves the least for a new connection, and reports whether it was free.
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

// joinShare: one join takes at most a joinShare-th of the bytes that are free for joins. With the default Config the first connection
// gets its whole limit of 8 MiB, the 32nd 1.3 MiB, the 100th 14 KiB beyond the least.
const joinShare = 16

// Join enlarges the reservation of a connection that has joined, by its share of the free bytes and up to limit, and returns it. So a
// first transfer fills a long path at once; Grow would take two round trips for that. It leaves forUse alone, so that idle
// connections do not have all bytes.
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

// Grow makes a reservation of held bytes four times as large, up to limit, and returns it. It leaves it as it is if it would take more
// than half of the free bytes that are not kept. The factor is large because each step costs a transfer a round trip.
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

// kept returns how many bytes are kept for connections that may still come.
func (m *Memory) kept() int { return max(0, m.expected) * m.least }
