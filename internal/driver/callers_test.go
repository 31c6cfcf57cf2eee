package driver

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCallers: an item is taken once for any number of calls, and again when it
// calls after Take; no call is lost.
func TestCallers(t *testing.T) {
	type item struct {
		waits     atomic.Bool
		had, seen atomic.Int32
	}
	var all Callers[item]
	var one item
	for range 3 {
		all.Call(&one, &one.waits)
	}
	taken := 0
	count := func(*item) { taken++ }
	all.Take(count)
	all.Take(count)
	require.Equal(t, 1, taken)

	items := make([]item, 8)
	var calls sync.WaitGroup
	for i := range items {
		calls.Go(func() {
			for range 10_000 {
				items[i].had.Add(1)
				all.Call(&items[i], &items[i].waits)
			}
		})
	}
	look := func() {
		var called []*item
		all.Take(func(i *item) { called = append(called, i) })
		for _, i := range called {
			i.seen.Store(i.had.Load())
		}
	}
	for range 10_000 {
		look()
	}
	calls.Wait()
	look()
	for i := range items {
		require.EqualValues(t, 10_000, items[i].seen.Load(), "what the last call announced was seen")
	}
}
