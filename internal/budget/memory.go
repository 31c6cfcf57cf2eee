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
	forUse   int // bytes for those that grow with use: half of what is not kept for the least limits of all
}

// NewMemory returns total bytes for at most conns connections, each of which begins with least.
func NewMemory(total, least, conns int) *Memory {
	m := &Memory{total: total, least: least, expected: conns}
	m.forUse = (total - m.kept()) / 2
	return m
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

// joinShare is the part of what is free for joins that one takes. With the default Config the first has its whole limit of 4 MiB, the
// 32nd 1.7 MiB, the 100th 0.4 MiB.
const joinShare = 32

// Join makes the reservation of a connection that has joined as large as many bytes are free, at most limit, and returns it: a
// first transfer then fills a long path at once, where growing with use takes two round trips. Half of the bytes that are
// not kept stay for those that grow with use, so that idle connections do not have them all.
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
