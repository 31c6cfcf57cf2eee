package driver

import (
	"sync"
	"sync/atomic"
)

// Callers lists the items, such as connections, that the driver must look at, so that it doesn't
// have to look at all of them. Its methods may be called concurrently. The zero Callers is empty.
type Callers[T any] struct {
	mu      sync.Mutex
	waiting []caller[T]
}

// A caller is a listed item.
type caller[T any] struct {
	item   *T
	listed *atomic.Bool
}

// Call lists an item unless it is already listed. listed records whether it is. It must be a field
// of the item that is used with this list only.
func (c *Callers[T]) Call(item *T, listed *atomic.Bool) {
	if listed.Swap(true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, caller[T]{item, listed})
}

// Take empties the list and calls each for its items. each must not block and must not use the
// Callers. It clears listed first, so that a Call while the driver looks at an item lists the item
// again.
func (c *Callers[T]) Take(each func(*T)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.waiting {
		one.listed.Store(false)
		each(one.item)
	}
	clear(c.waiting)
	c.waiting = c.waiting[:0]
}
