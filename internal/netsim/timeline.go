package netsim

import (
	"slices"
	"time"
)

// timeline is how a value changes: the first is in force, the others come later, by time.
type timeline[T any] []change[T]

// change is a value from a time on.
type change[T any] struct {
	at    time.Time
	value T
}

func always[T any](value T) timeline[T] { return timeline[T]{{value: value}} }

// set changes the value at a time.
func (l *timeline[T]) set(at time.Time, value T) {
	i := len(*l)
	for i > 1 && (*l)[i-1].at.After(at) {
		i--
	}
	*l = slices.Insert(*l, i, change[T]{at, value})
}

// now returns the value, and drops those that a later one has replaced by now.
func (l *timeline[T]) now(now time.Time) T {
	for len(*l) > 1 && !(*l)[1].at.After(now) {
		*l = (*l)[1:]
	}
	return (*l)[0].value
}
