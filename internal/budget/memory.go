package budget

import "sync"

// Memory is a budget for received reliable messages, shared by a world's connections. Each
// connection reserves as much as its limit allows it to hold. So the sum can't exceed the
// total, whatever the peers send. It is safe for concurrent use.
type Memory struct {
	total    int // bytes
	minimum  int // bytes that Enter reserves for each connection
	growOnly int // bytes that only Grow may use: half of total, less the minimum of all connections

	mu       sync.Mutex // guards the fields below
	reserved int        // bytes
	expected int        // connections that may still enter; negative until evicted ones have left
}

// NewMemory returns a Memory of total bytes for up to conns connections. Each connection begins
// with minimum bytes.
func NewMemory(total, minimum, conns int) *Memory {
	m := &Memory{total: total, minimum: minimum, expected: conns}
	m.growOnly = (total - m.kept()) / 2
	return m
}

// Enter reserves the minimum for a new connection. It returns false if it isn't free.
func (m *Memory) Enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.minimum > m.total-m.reserved {
		return false
	}
	m.reserved += m.minimum
	m.expected--
	return true
}

// Replace lets a new connection enter with the minimum of another one, which has been evicted for
// it. The evicted connection must then leave with no bytes.
func (m *Memory) Replace() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expected--
}

// joinShare limits the bytes that Join adds to 1/16 of the free bytes. With the default Config,
// the first connection gets its whole limit of 8 MiB. The 32nd gets 1.3 MiB, and the 100th gets
// only 14 KiB more than the minimum.
const joinShare = 16

// Join increases the reservation of a connection that has joined, up to limit, and returns the
// new reservation. It adds no more than 1/joinShare of the free bytes.
//
// With Join, a first transfer can fill a long path right away. With Grow alone, that would take
// two round trips. Join doesn't use the bytes in growOnly, so connections can't reserve
// everything just by being there.
func (m *Memory) Join(limit int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	free := m.total - m.reserved - m.kept() - m.growOnly
	more := min(limit-m.minimum, free/joinShare) &^ (1<<10 - 1)
	if more <= 0 {
		return m.minimum
	}
	m.reserved += more
	return m.minimum + more
}

// Grow multiplies a reservation of held bytes by four, up to limit, and returns the new
// reservation. The factor is large because each step costs a transfer a round trip. If Grow
// would take more than half of the bytes that are free and not kept for other connections, it
// doesn't change the reservation.
func (m *Memory) Grow(held, limit int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	more := limit - held
	if held < limit/4 { // otherwise, the product might overflow
		more = 3 * held
	}
	if more <= 0 || more > (m.total-m.reserved-m.kept())/2 {
		return held
	}
	m.reserved += more
	return held + more
}

// Leave frees a connection's reservation of held bytes when the connection ends.
func (m *Memory) Leave(held int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= held
	m.expected++
}

// Reserved returns the number of bytes that all connections have reserved.
func (m *Memory) Reserved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserved
}

// kept returns the number of bytes that are kept for connections that may still enter.
func (m *Memory) kept() int { return max(0, m.expected) * m.minimum }
