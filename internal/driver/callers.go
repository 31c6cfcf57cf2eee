package driver

import (
	"sync"
	"sync/atomic"
)

// Callers lists the items, such as connections, that the driver must look at, so that it need
// not look at all of them. Its methods may be called concurrently. The zero Callers is empty.
type Callers[T any] struct {
	mu      sync.Mutex
	waiting []caller[T]
}

// caller is a listed item.
type caller[T any] struct {
	item  *T
	waits *atomic.Bool
}

// Call lists an item unless it is already listed. waits records that the item is listed. It
// must be a field of the item and used with this list only.
func (c *Callers[T]) Call(item *T, waits *atomic.Bool) {
	if waits.Swap(true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, caller[T]{item, waits})
}

// Take empties the list and calls each for its items. each must not block and must not use
// the Callers. The driver looks at the items after Take has returned, so a Call in between
// lists its item again.
func (c *Callers[T]) Take(each func(*T)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.waiting {
		one.waits.Store(false)
		each(one.item)
	}
	clear(c.waiting)
	c.waiting = c.waiting[:0]
}
