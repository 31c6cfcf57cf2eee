// Package crew limits how many goroutines work at once. A [Crew] is for small pieces of work,
// for which starting a goroutine each would cost more than the work itself. [Turns] is for
// heavy work.
package crew

import (
	"runtime"
	"sync"

	"github.com/quivernet/quiver/internal/tasks"
)

// A Crew is a pool of goroutines, the members, that calls a function for each added value. It
// has at most GOMAXPROCS members. Add starts them, and they end when no value waits. Members
// take values in the order they were added. Add may be called concurrently.
type Crew[T any] struct {
	work func(T) // set by New

	mu      sync.Mutex // guards the fields below
	waiting tasks.Queue[T]
	members int // goroutines in run
}

// New returns a crew that calls work. work must be short and never block. The members may
// call it concurrently.
func New[T any](work func(T)) *Crew[T] { return &Crew[T]{work: work} }

// Add makes a member call work for one. It does not wait for the call.
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

// run runs on a member's goroutine.
func (c *Crew[T]) run() {
	for one, ok := c.take(); ok; one, ok = c.take() {
		c.work(one)
	}
}

// take removes and returns the first value. If there is none, it removes the calling member
// from the count. The member must then end.
func (c *Crew[T]) take() (one T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, ok = c.waiting.Take()
	if !ok {
		c.members--
	}
	return one, ok
}
