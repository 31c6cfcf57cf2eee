// Package ask keeps the questions of one end that have no answer yet, by number, and has the bytes in which they travel. It is pure.
package ask

import (
	"slices"
	"time"
)

// Table holds open questions by number, at most as many as its limit. The zero Table holds none; see [Table.SetLimit].
type Table[Q any] struct {
	limit   int
	last    uint64     // the newest number that Add gave
	open    []entry[Q] // by number
	soonest time.Time  // no question ends before; zero = none ends by itself
}

type entry[Q any] struct {
	number   uint64
	until    time.Time // zero = it does not end by itself
	question Q
}

// SetLimit says how many questions the table holds.
func (t *Table[Q]) SetLimit(limit int) { t.limit = limit }

// Len returns how many it holds.
func (t *Table[Q]) Len() int { return len(t.open) }

// Full reports whether it can hold no more.
func (t *Table[Q]) Full() bool { return len(t.open) >= t.limit }

// Add gives a question of our own a number, unless the table is full. It is due at until, or never (zero).
func (t *Table[Q]) Add(q Q, until time.Time) (number uint64, ok bool) {
	if t.Full() {
		return 0, false
	}
	t.last++
	t.open = append(t.open, entry[Q]{t.last, until, q})
	if !until.IsZero() && (t.soonest.IsZero() || until.Before(t.soonest)) {
		t.soonest = until
	}
	return t.last, true
}

// Added returns how many questions of our own there were: as many answers may come.
func (t *Table[Q]) Added() uint64 { return t.last }

// Put files a question of the peer's under its number, unless that is taken or the table is full.
func (t *Table[Q]) Put(number uint64, q Q) (ok bool) {
	i, taken := t.find(number)
	if taken || t.Full() {
		return false
	}
	t.open = slices.Insert(t.open, i, entry[Q]{number: number, question: q})
	return true
}

// Get returns an open question.
func (t *Table[Q]) Get(number uint64) (q Q, ok bool) {
	if i, ok := t.find(number); ok {
		return t.open[i].question, true
	}
	return q, false
}

// Take ends an open question.
func (t *Table[Q]) Take(number uint64) (q Q, ok bool) {
	i, ok := t.find(number)
	if !ok {
		return q, false
	}
	return t.remove(i), true
}

// TakeDue ends the oldest question whose time is over.
func (t *Table[Q]) TakeDue(now time.Time) (q Q, ok bool) {
	if len(t.open) == 0 || t.soonest.IsZero() || now.Before(t.soonest) {
		return q, false
	}
	t.soonest = time.Time{}
	for i, e := range t.open {
		if e.until.IsZero() {
			continue
		}
		if !now.Before(e.until) {
			t.soonest = now // there may be more
			return t.remove(i), true
		}
		if t.soonest.IsZero() || e.until.Before(t.soonest) {
			t.soonest = e.until
		}
	}
	return q, false
}

// TakeIf ends the oldest question that fits.
func (t *Table[Q]) TakeIf(fits func(Q) bool) (q Q, ok bool) {
	for i, e := range t.open {
		if fits(e.question) {
			return t.remove(i), true
		}
	}
	return q, false
}

// Any reports whether an open question fits.
func (t *Table[Q]) Any(fits func(Q) bool) bool {
	return slices.ContainsFunc(t.open, func(e entry[Q]) bool { return fits(e.question) })
}

func (t *Table[Q]) find(number uint64) (i int, ok bool) {
	return slices.BinarySearchFunc(t.open, number, func(e entry[Q], number uint64) int {
		switch {
		case e.number < number:
			return -1
		case e.number > number:
			return 1
		}
		return 0
	})
}

func (t *Table[Q]) remove(i int) Q {
	q := t.open[i].question
	t.open = slices.Delete(t.open, i, i+1)
	return q
}
