// Package tasks queues the functions of a game that wait to run, so that each of them runs once even when another panics, and names the
// one that is running. It is pure.
package tasks

import "fmt"

// Queue keeps what is to run, in order. The caller takes each one out before it runs, so that a panic loses nothing else. The zero Queue
// is empty.
type Queue[T any] struct {
	items []T
	next  int // of items; those before it have left
}

// Add appends t.
func (q *Queue[T]) Add(t T) {
	q.makePlace(1)
	q.items = append(q.items, t)
}

// makePlace moves what is left to the front when n more do not fit into the array and half of it has left: the array of a queue that is never
// empty, as that of a busy crew, would grow for ever.
func (q *Queue[T]) makePlace(n int) {
	if len(q.items)+n <= cap(q.items) || q.Len() > q.next {
		return
	}
	left := copy(q.items, q.items[q.next:])
	clear(q.items[left:])
	q.items, q.next = q.items[:left], 0
}

// AddAll appends what another goroutine or tick has gathered, and leaves from empty. An empty queue swaps its array with from's, so that a
// steady load allocates nothing.
func (q *Queue[T]) AddAll(from *[]T) {
	if q.Empty() {
		q.items, q.next, *from = *from, 0, q.items[:0]
		return
	}
	q.makePlace(len(*from))
	q.items = append(q.items, *from...)
	clear(*from)
	*from = (*from)[:0]
}

// Len returns how many are left.
func (q *Queue[T]) Len() int { return len(q.items) - q.next }

// Empty reports whether nothing is left.
func (q *Queue[T]) Empty() bool { return q.Len() == 0 }

// Take takes the first one out.
func (q *Queue[T]) Take() (t T, ok bool) {
	if q.Empty() {
		q.items, q.next = q.items[:0], 0
		return t, false
	}
	var none T
	t, q.items[q.next] = q.items[q.next], none
	q.next++
	return t, true
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

// Unwrap returns the error that was panicked with, nil when it was none.
func (p Panic) Unwrap() error {
	err, _ := p.Recovered.(error)
	return err
}
