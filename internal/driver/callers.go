package driver

import (
	"sync"
	"sync/atomic"
)

// Callers lists the items, say connections, at which the driver has to look, so that it need not ask all of them. Its methods are safe from any
// goroutine; the zero Callers is empty.
type Callers[T any] struct {
	mu      sync.Mutex
	waiting []caller[T]
}

// caller is a listed item.
type caller[T any] struct {
	item  *T
	waits *atomic.Bool
}

// Call lists an item, unless it is listed already. waits says that it is: a field of the item, for this list alone.
func (c *Callers[T]) Call(item *T, waits *atomic.Bool) {
	if waits.Swap(true) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, caller[T]{item, waits})
}

// Take empties the list and hands its items to each, which must neither block nor use Callers. The driver looks at them after Take has returned:
// a Call that comes meanwhile lists its item anew.
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
