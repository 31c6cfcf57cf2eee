// Package crew says how many goroutines work at once: a [Crew] of a few does the small work of many, where a goroutine for each would cost
// more to start than the work itself, and heavy work takes [Turns].
package crew

import (
	"runtime"
	"sync"

	"github.com/quivernet/quiver/internal/tasks"
)

// Crew calls a function for each value that was added, in the order of Add, on at most as many goroutines as there are processors. It starts
// them when needed, and they end when no value waits. Add may be called concurrently.
type Crew[T any] struct {
	work func(T) // never changes

	mu      sync.Mutex // guards the fields below
	waiting tasks.Queue[T]
	members int // goroutines that run
}

// New returns a crew whose work is short and never blocks.
func New[T any](work func(T)) *Crew[T] { return &Crew[T]{work: work} }

// Add has a member call work for one.
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

// take takes the first value out. When there is none, it counts the calling goroutine out, which then ends.
func (c *Crew[T]) take() (one T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one, ok = c.waiting.Take(); !ok {
		c.members--
	}
	return one, ok
}
