// Package tasks queues and runs the functions of a game, and names the one that is running. Each
// function runs once, even if another one panics. The package has no clock, no goroutine and no
// lock.
package tasks

import (
	"fmt"

	"github.com/quivernet/quiver/internal/recovery"
)

// initialCapacity is the capacity of a queue after the first Add.
const initialCapacity = 8

// A Queue holds items to run, in order. The caller removes each item before running it, so a panic
// loses no other item. The zero Queue is empty.
type Queue[T any] struct{ waiting recovery.Ring[T] }

// Add appends t.
func (q *Queue[T]) Add(t T) {
	last := q.waiting.Push(initialCapacity)
	*last = t
}

// AddAll appends the items in from and empties from.
func (q *Queue[T]) AddAll(from *[]T) {
	for _, t := range *from {
		q.Add(t)
	}
	clear(*from)
	*from = (*from)[:0]
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return q.waiting.Len() }

// Take removes and returns the first item.
func (q *Queue[T]) Take() (t T, ok bool) {
	if q.Len() == 0 {
		return t, false
	}
	return q.waiting.Take(), true
}

// Doing names the running function of the game: what it is and, unless Of is nil, which method or
// class it belongs to. It has two parts because it is set before every call, where joining them
// would allocate. String joins them when there is an error.
type Doing struct {
	What string
	Of   fmt.Stringer
}

// Or returns d, or other if d says nothing.
func (d Doing) Or(other Doing) Doing {
	if d.Of == nil && d.What == "" {
		return other
	}
	return d
}

func (d Doing) String() string {
	switch {
	case d.Of != nil:
		return d.What + d.Of.String()
	case d.What == "":
		return "a function of the game"
	}
	return d.What
}

// A Panic is an error for a function of the game that panicked, with the value that recover
// returned. It isn't sent to the peer.
type Panic struct{ Recovered any }

func (p Panic) Error() string { return fmt.Sprintf("panic: %v", p.Recovered) }

// Unwrap returns the recovered value if it is an error, or nil.
func (p Panic) Unwrap() error {
	err, _ := p.Recovered.(error)
	return err
}
