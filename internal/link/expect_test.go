package link_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExpectMeanwhile: Expect from many goroutines, while carriers change,
// paths move and the connection ends. The machines' newest word is true.
func TestExpectMeanwhile(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			b := newBeside(t)
			var wg sync.WaitGroup
			for g := range uint64(6) {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, g))
					for range 200 {
						switch k := r.IntN(10); {
						case k < 5:
							b.Expect(int64(r.IntN(3)))
						case k == 5 && g == 0:
							if r.IntN(2) == 0 {
								b.Carry(b.bell)
							} else {
								b.Carry(nil)
							}
						case k == 6:
							b.source.Lock()
							b.source.Moved(time.Now())
							b.source.Unlock()
						case k == 7:
							b.source.Lock()
							b.source.Tell(time.Now(), 1000, 1e6, 0.1, 100)
							b.source.Unlock()
						case k == 8:
							time.Sleep(time.Duration(r.IntN(100)) * time.Microsecond)
						case k == 9 && g == 1 && r.IntN(150) == 0 && seed%4 == 0:
							b.Close(1, "over")
						}
					}
				})
			}
			wg.Wait()
			b.Expect(0)
			check := func(want bool) {
				b.source.Lock()
				defer b.source.Unlock()
				if n := len(b.play.paths); n > 0 {
					require.Equal(t, want, b.play.paths[n-1].More, "seed %d", seed)
				}
				if n := len(b.bulk.paths); n > 0 {
					require.Equal(t, want, b.bulk.paths[n-1].More, "seed %d", seed)
				}
			}
			check(false)
			b.Expect(7)
			check(true)
			wg.Go(func() { b.Expect(0) })
			wg.Go(func() { b.Expect(3) })
			wg.Wait()
			b.Expect(1)
			check(true)
		})
	}
}

// TestExpectOfGigabytes: what a transfer of 5 GiB announces is no negative
// number where an int has 32 bits.
func TestExpectOfGigabytes(t *testing.T) {
	b := newBeside(t)
	b.Expect(5 << 30)
	b.source.Lock()
	defer b.source.Unlock()
	require.GreaterOrEqual(t, b.source.Waiting(), 1<<30)
}
