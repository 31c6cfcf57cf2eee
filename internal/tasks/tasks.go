// Package tasks queues the functions of a game that wait to run, so that each of them runs once even when another panics, and names the
// one that is running. It is pure.
package tasks

import (
	"fmt"

	"github.com/quivernet/quiver/internal/recovery"
)

// leastPlaces is for how many a queue gets room at first.
const leastPlaces = 8

// Queue keeps what is to run, in order. The caller takes each one out before it runs, so that a panic loses nothing else. The zero Queue
// is empty.
type Queue[T any] struct{ waiting recovery.Ring[T] }

// Add appends t.
func (q *Queue[T]) Add(t T) { *q.waiting.Push(leastPlaces) = t }

// AddAll appends what another goroutine or tick has gathered in from, and empties that.
func (q *Queue[T]) AddAll(from *[]T) {
	for _, t := range *from {
		q.Add(t)
	}
	clear(*from)
	*from = (*from)[:0]
}

// Len returns how many are left.
func (q *Queue[T]) Len() int { return q.waiting.Len() }

// Take takes the first one out.
func (q *Queue[T]) Take() (t T, ok bool) {
	if q.Len() == 0 {
		return t, false
	}
	return q.waiting.Take(), true
}

// Doing names the function of the game that is running: what it is, and of which method or class unless Of is nil. It keeps the two parts
// apart because it is set before every call and must not allocate; String joins them when something went wrong.
type Doing struct {
	What string
	Of   fmt.Stringer
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

// Panic is what a function of the game panicked with, as an error. It stays on this side.
type Panic struct{ Recovered any }

func (p Panic) Error() string { return fmt.Sprintf("panic: %v", p.Recovered) }

// Unwrap returns the error that was panicked with, nil if it was none.
func (p Panic) Unwrap() error {
	err, _ := p.Recovered.(error)
	return err
}
