package timers

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRandomTimers: many goroutines set and stop timers, also from Fire, and
// each timer that was set last fires.
func TestRandomTimers(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			q := New()
			const n = 40
			var fired [n]atomic.Int64
			timers := make([]*Timer, n)
			var quiet atomic.Bool
			for i := range timers {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				timers[i] = &Timer{}
				timers[i].Fire = func() {
					fired[i].Add(1)
					if quiet.Load() {
						return
					}
					other := timers[r.IntN(n)]
					switch r.IntN(3) {
					case 0:
						q.Set(other, time.Now().Add(time.Duration(r.IntN(5)-1)*time.Millisecond))
					case 1:
						q.Stop(other)
					case 2:
						q.Set(timers[i], time.Now().Add(-time.Second))
					}
				}
			}
			var wg sync.WaitGroup
			for g := range uint64(8) {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, 1000+g))
					for range 300 {
						i := r.IntN(n)
						if r.IntN(3) == 0 {
							q.Stop(timers[i])
						} else {
							q.Set(timers[i], time.Now().Add(time.Duration(r.IntN(20)-3)*time.Millisecond))
						}
						if r.IntN(4) == 0 {
							time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
						}
						q.mu.Lock()
						for j, e := range q.waiting {
							if e.timer.place != j+1 || j > 0 && q.waiting[(j-1)/2].at > e.at {
								panic("heap is broken")
							}
						}
						q.mu.Unlock()
					}
				})
			}
			wg.Wait()
			quiet.Store(true)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Empty(t, q.waiting, "seed %d", seed)
			for i := range timers {
				before := fired[i].Load()
				q.Set(timers[i], time.Now().Add(3*time.Millisecond))
				time.Sleep(5 * time.Millisecond)
				synctest.Wait()
				require.Equal(t, before+1, fired[i].Load())
			}
		})
	}
}
