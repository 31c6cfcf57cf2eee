package netsim

import (
	"slices"
	"time"
)

// A timeline holds the values of a setting over time, in order. The first applies now, and the
// others apply later.
type timeline[T any] []change[T]

// A change is a value and the time from which it applies.
type change[T any] struct {
	at    time.Time
	value T
}

// always returns a timeline with a single value.
func always[T any](value T) timeline[T] { return timeline[T]{{value: value}} }

// set adds a value that applies from the time at on, until the next one.
func (l *timeline[T]) set(at time.Time, value T) {
	i := len(*l)
	for i > 1 && (*l)[i-1].at.After(at) {
		i--
	}
	*l = slices.Insert(*l, i, change[T]{at, value})
}

// advance removes the values that no longer apply, and returns the one that applies now.
func (l *timeline[T]) advance(now time.Time) T {
	for len(*l) > 1 && !(*l)[1].at.After(now) {
		*l = (*l)[1:]
	}
	return (*l)[0].value
}
