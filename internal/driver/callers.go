package driver

import (
	"sync"
	"sync/atomic"
)

// Callers collects those that have something for the driver, so that it need not ask all. Its methods are safe from any goroutine; the zero
// Callers is empty.
type Callers[T any] struct {
	mu      sync.Mutex
	waiting []caller[T]
}

type caller[T any] struct {
	item  *T
	waits *atomic.Bool
}

// Call adds an item, once until Take takes it. waits is the item's own, for this list alone.
func (c *Callers[T]) Call(item *T, waits *atomic.Bool) {
	if waits.Swap(true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, caller[T]{item, waits})
}

// Take hands all items that wait to each, which must not block, nor call. Whatever an item has from then on needs another Call, so each only
// notes it, and the driver looks after Take.
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
