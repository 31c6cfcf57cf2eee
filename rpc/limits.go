package rpc

import "sync"

// budget shares the memory for reliable messages that wait here among the connections of a world. Each reserves its
// limit as a whole, so that the sum holds whatever peers do.
type budget struct {
	mu       sync.Mutex
	total    int // bytes
	reserved int
	expected int // connections that may come yet; negative while those that make room have not left
	forUse   int // bytes for those that grow with use: half of what is not kept for the least limits of all
}

func newBudget(total, conns int) *budget {
	b := &budget{total: total, expected: conns}
	b.forUse = (total - b.kept()) / 2
	return b
}

// enter reserves what a new connection begins with, and reports whether that was there.
func (b *budget) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if minReceiveLimit > b.total-b.reserved {
		return false
	}
	b.reserved += minReceiveLimit
	b.expected--
	return true
}

// joinShare is the part of what is free for joins that one takes. With the default Config the first has its whole limit of 4 MiB, the
// 32nd 1.7 MiB, the 100th 0.4 MiB.
const joinShare = 32

// join makes the reservation of a connection that has joined as large as many bytes are free, at most limit, and returns it: a
// first transfer then fills a long path at once, where growing with use takes two round trips. Half of the bytes that are
// not kept stay for those that grow with use, so that idle connections do not have them all.
func (b *budget) join(limit int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := b.total - b.reserved - b.kept() - b.forUse
	more := min(limit-minReceiveLimit, free/joinShare) &^ (1<<10 - 1)
	if more <= 0 {
		return minReceiveLimit
	}
	b.reserved += more
	return minReceiveLimit + more
}

// grow makes a reservation of held bytes four times as large, at most limit, and returns the new one; the same when that
// would take more than half of what is free beside what is kept. Each step costs a transfer a round trip.
func (b *budget) grow(held, limit int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	more := min(4*held, limit) - held
	if more <= 0 || more > (b.total-b.reserved-b.kept())/2 {
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
	b.expected++
}

// kept returns what is not for those that grow, but for the connections that may come yet.
func (b *budget) kept() int { return max(0, b.expected) * minReceiveLimit }

// widen lets more reliable bytes wait here, for a connection that what may wait holds up.
func (c *Conn) widen() {
	held := int(c.reserved.Load())
	if limit := c.world.budget.grow(held, c.world.config.receiveLimit()); limit > held {
		c.reserved.Store(int64(limit))
		c.tellLimit(limit)
	}
}

func (c *Conn) tellLimit(limit int) {
	c.link.Lock()
	defer c.link.Unlock()
	c.machine.SetReceiveLimit(limit)
}
