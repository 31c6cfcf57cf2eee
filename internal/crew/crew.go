// Package crew limits how many goroutines work at once. A [Crew] is for pieces of work that are so
// small that starting a goroutine for each would cost more than the work itself. [Turns] is for
// heavy work.
package crew

import (
	"runtime"
	"sync"

	"github.com/quivernet/quiver/internal/tasks"
)

// A Crew is a pool of up to GOMAXPROCS goroutines, its members, which call a function for each
// added value, in the order in which the values were added. Add starts members, and they end when
// no value is waiting. Add may be called concurrently.
type Crew[T any] struct {
	work func(T) // set by New

	mu      sync.Mutex // guards the fields below
	waiting tasks.Queue[T]
	members int // goroutines in run
}

// New returns a crew that calls work, which must be short and must not block. The members may call
// it concurrently.
func New[T any](work func(T)) *Crew[T] { return &Crew[T]{work: work} }

// Add adds a value, for which a member will call work. It doesn't wait for that.
func (c *Crew[T]) Add(value T) {
	c.mu.Lock()
	c.waiting.Add(value)
	grows := c.members < runtime.GOMAXPROCS(0)
	if grows {
		c.members++
	}
	c.mu.Unlock()
	if grows {
		go c.run()
	}
}

// run is a member's goroutine.
func (c *Crew[T]) run() {
	for {
		value, ok := c.takeOrLeave()
		if !ok {
			return
		}
		c.work(value)
	}
}

// takeOrLeave removes and returns the first value. If there is none, it removes the calling member
// from the count, and the member must end.
func (c *Crew[T]) takeOrLeave() (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok = c.waiting.Take()
	if !ok {
		c.members--
	}
	return value, ok
}
