package crew

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCrewWorksForEachOnce, in order when it has one member, with no goroutine left.
func TestCrewWorksForEachOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		var got []int
		c := New(func(n int) { got = append(got, n) })
		for n := range 3 {
			c.Add(n)
		}
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, got)
		require.Zero(t, c.members)
		c.Add(3)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3}, got)
	})
}

// TestCrewIsSmall: however many wait, no more work at a time than there are processors.
func TestCrewIsSmall(t *testing.T) {
	const waiting = 1000
	var mu sync.Mutex
	var working, most, done int
	synctest.Test(t, func(t *testing.T) {
		begin := make(chan struct{})
		c := New(func(int) {
			mu.Lock()
			working++
			most = max(most, working)
			mu.Unlock()
			<-begin
			mu.Lock()
			defer mu.Unlock()
			working--
			done++
		})
		for n := range waiting {
			c.Add(n)
		}
		synctest.Wait()
		close(begin)
		synctest.Wait()
		require.Zero(t, c.members)
	})
	require.Equal(t, waiting, done)
	require.Equal(t, runtime.GOMAXPROCS(0), most)
}

// TestTurnsAreBounded: they are taken in the order in which they were asked
// for; a goroutine that stops waiting gets none.
func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		stop := make(chan struct{})
		require.True(t, turns.Take(nil))
		var got []int
		for n := range 3 {
			go func() {
				turns.Take(nil)
				defer turns.End()
				got = append(got, n)
			}()
			synctest.Wait()
		}
		stopped := make(chan bool)
		go func() { stopped <- turns.Take(stop) }()
		synctest.Wait()
		require.Empty(t, got)
		close(stop)
		require.False(t, <-stopped)
		turns.End()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, got)
	})
}

// TestTurnThatWaits counts no more after a while, so that others get theirs; it
// ends once, whatever fn does.
func TestTurnThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		first, ended := make(chan struct{}), make(chan struct{})
		go func() {
			turns.Do(nil, func() { <-first })
			close(ended)
		}()
		synctest.Wait()
		begin := time.Now()
		for range 3 {
			require.True(t, turns.Do(nil, func() {}))
			require.Panics(t, func() { turns.Do(nil, func() { panic("fn") }) })
		}
		require.Equal(t, maxTurn, time.Since(begin))
		close(first)
		<-ended
		require.True(t, turns.Take(nil))
		require.False(t, turns.Do(ended, func() { t.Error("there is one turn") }))
	})
}
