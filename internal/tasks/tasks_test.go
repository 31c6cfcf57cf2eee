package tasks

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestQueueLosesNothing: a function that panics was removed before; functions
// that are added meanwhile run as well.
func TestQueueLosesNothing(t *testing.T) {
	var q Queue[int]
	var ran []int
	run := func() {
		defer func() { _ = recover() }()
		for n, ok := q.Take(); ok; n, ok = q.Take() {
			if ran = append(ran, n); n == 2 {
				q.Add(9)
				panic("two")
			}
		}
	}
	inbox := []int{1, 2, 3}
	q.AddAll(&inbox)
	require.Empty(t, inbox)
	for q.Len() > 0 {
		run()
	}
	require.Equal(t, []int{1, 2, 3, 9}, ran)
	inbox = append(inbox, 4)
	q.Add(5)
	q.AddAll(&inbox)
	require.Empty(t, inbox)
	n, ok := q.Take()
	require.True(t, ok)
	require.Equal(t, 5, n)
	n, ok = q.Take()
	require.True(t, ok)
	require.Equal(t, 4, n)
	_, ok = q.Take()
	require.False(t, ok)
}

// TestQueueThatIsNeverEmpty: it needs memory for what is left, and not for all
// that has passed through.
func TestQueueThatIsNeverEmpty(t *testing.T) {
	const left = 10
	var q Queue[int]
	for n := range 10_000 {
		if batch := []int{n}; n%3 == 0 {
			q.AddAll(&batch)
		} else {
			q.Add(n)
		}
		if n < left {
			continue
		}
		first, ok := q.Take()
		require.True(t, ok)
		require.Equal(t, n-left, first)
		require.Equal(t, left, q.Len())
	}
	require.LessOrEqual(t, q.waiting.Cap(), 4*left)
}

// TestQueueOfBatchesThatIsNeverEmpty: also when a batch seldom fills the array to its end.
func TestQueueOfBatchesThatIsNeverEmpty(t *testing.T) {
	for size := 2; size < 8; size++ {
		var q Queue[int]
		q.Add(0)
		for range 10_000 {
			batch := make([]int, size)
			q.AddAll(&batch)
			for range size {
				_, ok := q.Take()
				require.True(t, ok)
			}
			require.Equal(t, 1, q.Len())
		}
		require.LessOrEqual(t, q.waiting.Cap(), 8*size, "batches of %d", size)
	}
}

// TestQueueInOrder: however items are added, and wherever a panic stops, all of
// them are taken once, in order, and taken ones are not retained.
func TestQueueInOrder(t *testing.T) {
	random := testkit.Rand(t)
	var q Queue[*int]
	var inbox []*int
	var want []int
	added, taken := 0, 0
	next := func() *int {
		added++
		want = append(want, added)
		return &want[len(want)-1]
	}
	for range 10_000 {
		switch random.IntN(4) {
		case 0:
			q.Add(next())
		case 1:
			for range random.IntN(5) {
				inbox = append(inbox, next())
			}
			q.AddAll(&inbox)
			require.Empty(t, inbox)
			for _, left := range inbox[:cap(inbox)] {
				require.Nil(t, left)
			}
		default:
			for range random.IntN(5) {
				n, ok := q.Take()
				require.Equal(t, taken < added, ok)
				if ok {
					taken++
					require.Equal(t, taken, *n)
				}
			}
		}
		require.Equal(t, taken == added, q.Len() == 0)
		held := 0
		for n := range uint64(q.waiting.Cap()) {
			if *q.waiting.At(n) != nil {
				held++
			}
		}
		require.Equal(t, q.Len(), held)
	}
}

// TestQueueTakesNoMemory: in steady state, with an inbox that is filled again each time.
func TestQueueTakesNoMemory(t *testing.T) {
	var q Queue[func()]
	var inbox []func()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for range 10 {
			inbox = append(inbox, func() {})
		}
		q.AddAll(&inbox)
		for _, ok := q.Take(); ok; _, ok = q.Take() {
		}
	}))
}

type class string

func (c class) String() string { return string(c) }

func TestDoing(t *testing.T) {
	require.Equal(t, "a function of the game", Doing{}.String())
	require.Equal(t, "an OnTick hook", Doing{What: "an OnTick hook"}.String())
	require.Equal(t, "OnClose of Player", Doing{What: "OnClose of ", Of: class("Player")}.String())
	require.ErrorIs(t, Panic{io.EOF}, io.EOF)
	require.EqualError(t, Panic{1}, "panic: 1")
	require.NoError(t, errors.Unwrap(Panic{1}))
}

// TestRunner: each task runs once, even those after one that panics, which is
// named and reported with its connection.
func TestRunner(t *testing.T) {
	var r Runner[string]
	var ran, told []string
	r.Panicked = func(conn string, doing Doing, recovered any) { told = append(told, conn+": "+doing.String()) }
	r.Later("a", Doing{What: "one"}, func() {
		ran = append(ran, "one")
		r.During(Doing{What: "a part"}, func() { ran = append(ran, "part") })
		r.Later("b", Doing{What: "two"}, func() { panic("boom") })
		r.Later("b", Doing{What: "three"}, func() { ran = append(ran, "three") })
	})
	require.Equal(t, 1, r.Pending())
	r.RunTasks()
	require.Zero(t, r.Pending())
	posts := []func(){func() { panic("boom") }, func() { ran = append(ran, "post") }}
	r.Post(&posts)
	r.RunPosts()
	require.Equal(t, []string{"one", "part", "three", "post"}, ran)
	require.Equal(t, []string{"b: two", ": a posted function"}, told)

	r.Panicked = nil
	r.Later("", Doing{}, func() { panic("boom") })
	require.PanicsWithValue(t, "boom", r.RunTasks)
}

// TestLastIsWhatWasSlow: after a part of a function has returned, its name is still known.
func TestLastIsWhatWasSlow(t *testing.T) {
	var r Runner[int]
	r.During(Doing{What: "the constructor"}, func() { require.Equal(t, "the constructor", r.Doing.String()) })
	require.Equal(t, "a function of the game", r.Doing.String())
	require.Equal(t, "the constructor", r.Doing.Or(r.Last).String())
	require.Equal(t, "a handler", Doing{What: "a handler"}.Or(r.Last).String())
}
