// Package crew says how many goroutines work at once: a [Crew] of a few does the small work of many, where a goroutine for each would cost
// more to start than the work itself, and heavy work takes [Turns].
package crew

import (
	"runtime"
	"sync"

	"github.com/quivernet/quiver/internal/tasks"
)

// Crew works for those that were added, in their order, with at most as many goroutines as there are processors. They exist while somebody
// waits. Add may be called concurrently.
type Crew[T any] struct {
	work func(T)

	mu      sync.Mutex
	waiting tasks.Queue[T]
	members int // goroutines
}

// New returns a crew whose work is short and never blocks.
func New[T any](work func(T)) *Crew[T] { return &Crew[T]{work: work} }

// Add has work called for one, soon and on another goroutine.
func (c *Crew[T]) Add(one T) {
	c.mu.Lock()
	c.waiting.Add(one)
	grows := c.members < runtime.GOMAXPROCS(0)
	if grows {
		c.members++
	}
	c.mu.Unlock()
	if grows {
		go c.run()
	}
}

func (c *Crew[T]) run() {
	for one, ok := c.take(); ok; one, ok = c.take() {
		c.work(one)
	}
}

// take takes the first one out. When it is false the goroutine is no member any more.
func (c *Crew[T]) take() (one T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, ok = c.waiting.Take(); !ok {
		c.members--
	}
	return one, ok
}
