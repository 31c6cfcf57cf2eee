// Package ask keeps track of calls that return a result: it holds the questions of one side of a
// connection until they are answered, and encodes questions and answers. It has no clock, no
// goroutine and no lock.
package ask

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Table holds the open questions of this side, or those of the peer, by number. It is full from
// the beginning, until SetLimit allows some. It isn't safe for concurrent use.
type Table[Q any] struct {
	limit int
	last  uint64            // newest number given by Add
	open  []entry[Q]        // in number order
	due   recovery.Earliest // no open question times out before this time
}

// An entry is an open question.
type entry[Q any] struct {
	number   uint64
	until    time.Time // when the question times out; zero if it never does
	question Q
}

// SetLimit sets the maximum number of questions in the table.
func (t *Table[Q]) SetLimit(limit int) { t.limit = limit }

// Len returns the number of open questions.
func (t *Table[Q]) Len() int { return len(t.open) }

// Full reports whether the table holds as many questions as its limit allows.
func (t *Table[Q]) Full() bool { return len(t.open) >= t.limit }

// Add adds a question of this side under the next number. The question times out at until, or never
// if that is zero. ok is false if the table is full.
func (t *Table[Q]) Add(q Q, until time.Time) (number uint64, ok bool) {
	if t.Full() {
		return 0, false
	}
	t.last++
	t.open = append(t.open, entry[Q]{t.last, until, q})
	t.due.Add(until, !until.IsZero())
	return t.last, true
}

// Added returns how many questions Add added, which is also the highest number that the peer may
// answer.
func (t *Table[Q]) Added() uint64 { return t.last }

// Put adds a question of the peer under its number. ok is false if the number is in use or
// the table is full.
func (t *Table[Q]) Put(number uint64, q Q) (ok bool) {
	i, taken := t.find(number)
	if taken || t.Full() {
		return false
	}
	t.open = slices.Insert(t.open, i, entry[Q]{number: number, question: q})
	return true
}

// Get returns the open question with the given number.
func (t *Table[Q]) Get(number uint64) (q Q, ok bool) {
	if i, ok := t.find(number); ok {
		return t.open[i].question, true
	}
	return q, false
}

// Take removes and returns the open question with the given number.
func (t *Table[Q]) Take(number uint64) (q Q, ok bool) {
	if i, ok := t.find(number); ok {
		return t.take(i)
	}
	return q, false
}

// TakeDue removes and returns the oldest question that has timed out by now. It is cheap, because
// it looks at the questions only if one may have timed out.
func (t *Table[Q]) TakeDue(now time.Time) (q Q, ok bool) {
	if due, ok := t.due.Time(); !ok || now.Before(due) {
		return q, false
	}

	// Compute due again along the way. If we stop early, due is a time in the past, so that the
	// next call looks at the rest.
	t.due = recovery.Earliest{}
	for i, e := range t.open {
		t.due.Add(e.until, !e.until.IsZero())
		if !e.until.IsZero() && !now.Before(e.until) {
			return t.take(i)
		}
	}
	return q, false
}

// TakeIf removes and returns the oldest question for which fits returns true.
func (t *Table[Q]) TakeIf(fits func(Q) bool) (q Q, ok bool) {
	return t.take(slices.IndexFunc(t.open, func(e entry[Q]) bool { return fits(e.question) }))
}

// Any reports whether fits returns true for any open question.
func (t *Table[Q]) Any(fits func(Q) bool) bool {
	return slices.ContainsFunc(t.open, func(e entry[Q]) bool { return fits(e.question) })
}

// find returns the index of the question with the given number. If there is none, it returns false
// and the index at which to insert one.
func (t *Table[Q]) find(number uint64) (i int, ok bool) {
	return slices.BinarySearchFunc(t.open, number, func(e entry[Q], number uint64) int {
		return cmp.Compare(e.number, number)
	})
}

// take removes and returns the question at index i. ok is false if i is negative.
func (t *Table[Q]) take(i int) (q Q, ok bool) {
	if i < 0 {
		return q, false
	}
	q = t.open[i].question
	t.open = slices.Delete(t.open, i, i+1)
	return q, true
}
