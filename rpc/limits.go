package rpc

import "sync"

// budget shares the memory for reliable messages that wait here among the connections of a world. Each reserves its
// limit as a whole, so that the sum holds whatever peers do.
type budget struct {
	mu       sync.Mutex
	total    int // bytes
	reserved int
	kept     int // for the connections to come, minReceiveLimit each
}

func newBudget(total, conns int) *budget {
	return &budget{total: total, kept: min(total, conns*minReceiveLimit)}
}

// enter reserves what a new connection begins with, and reports whether that was there.
func (b *budget) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if minReceiveLimit > b.total-b.reserved {
		return false
	}
	b.reserved += minReceiveLimit
	b.kept = max(0, b.kept-minReceiveLimit)
	return true
}

// grow doubles a reservation of held bytes, at most to limit, and returns the new one; the same when that would take more
// than half of what is free beside what is kept.
func (b *budget) grow(held, limit int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	more := min(2*held, limit) - held
	if more <= 0 || more > (b.total-b.reserved-b.kept)/2 {
		return held
	}
	b.reserved += more
	return held + more
}

// leave returns what a connection had reserved.
func (b *budget) leave(held int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved -= held
	b.kept = min(b.kept+minReceiveLimit, b.total-b.reserved)
}

// widen lets more reliable bytes wait here, for a connection that what may wait holds up.
func (c *Conn) widen() {
	held := int(c.reserved.Load())
	if limit := c.world.budget.grow(held, c.world.config.receiveLimit()); limit > held {
		c.reserved.Store(int64(limit))
		c.link.Lock()
		c.machine.SetReceiveLimit(limit)
		c.link.Unlock()
	}
}
