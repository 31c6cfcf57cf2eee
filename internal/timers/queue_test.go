package timers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// watched is a timer that notes when it fires.
type watched struct {
	Timer
	fired []time.Duration // after begin
}

func watch(begin time.Time) *watched {
	w := new(watched)
	w.Fire = func() { w.fired = append(w.fired, time.Since(begin)) }
	return w
}

// TestTimersFireOnce, when they were set to last, and not when they were stopped.
func TestTimersFireOnce(t *testing.T) {
	random := testkit.Rand(t)
	synctest.Test(t, func(t *testing.T) {
		q, begin := New(), time.Now()
		var all []*watched
		want := make([]time.Duration, 100)
		for range want {
			all = append(all, watch(begin))
		}
		for range 1000 {
			i, at := random.IntN(len(all)), time.Duration(random.Int64N(int64(time.Minute)))
			if want[i] = at; random.IntN(4) == 0 {
				q.Stop(&all[i].Timer)
				want[i] = 0
			} else {
				q.Set(&all[i].Timer, begin.Add(at))
			}
			q.mu.Lock()
			require.Len(t, q.waiting, len(all)-count(want, 0), "those that are set, and nothing else")
			q.mu.Unlock()
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for i, w := range all {
			if want[i] == 0 {
				require.Empty(t, w.fired)
				continue
			}
			require.Len(t, w.fired, 1)
			require.GreaterOrEqual(t, w.fired[0], want[i])
			require.LessOrEqual(t, w.fired[0], want[i]+gap)
		}
		require.Empty(t, q.waiting)
	})
}

func count(all []time.Duration, one time.Duration) (n int) {
	for _, d := range all {
		if d == one {
			n++
		}
	}
	return n
}

// TestOneGoroutineFiresMany that are due at nearly the same time.
func TestOneGoroutineFiresMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, begin := New(), time.Now()
		looks, last := 0, time.Duration(-1)
		for i := range 1000 {
			timer := &Timer{Fire: func() {
				if now := time.Since(begin); now != last {
					looks, last = looks+1, now
				}
			}}
			q.Set(timer, begin.Add(time.Second+time.Duration(i)*10*time.Microsecond))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, looks, 12, "10 ms, and a look each")
	})
}

// TestTimerSetByFire: a timer may set itself, and another one that is due at once.
func TestTimerSetByFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, begin := New(), time.Now()
		other, fires := watch(begin), 0
		var timer *Timer
		timer = &Timer{Fire: func() {
			if fires++; fires < 5 {
				q.Set(timer, time.Now().Add(time.Second))
				q.Set(&other.Timer, time.Now())
			}
		}}
		q.Set(timer, begin.Add(time.Second))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 5, fires)
		require.Equal(t, []time.Duration{time.Second + gap, 2*time.Second + gap, 3*time.Second + gap, 4*time.Second + gap}, other.fired)
	})
}

// TestTimersBesideEachOther: many goroutines set and stop timers while they fire.
func TestTimersBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New()
		for range 20 {
			go func() {
				fired := make(chan struct{}, 1)
				timer := &Timer{Fire: func() { fired <- struct{}{} }}
				for range 100 {
					q.Set(timer, time.Now().Add(time.Hour))
					q.Stop(timer)
					q.Set(timer, time.Now().Add(time.Millisecond))
					<-fired
				}
			}()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, q.waiting)
	})
}

func BenchmarkPutOff(b *testing.B) {
	q := New()
	now := q.epoch
	timers := make([]Timer, 1000)
	for i := range timers {
		q.Set(&timers[i], now.Add(time.Hour+time.Duration(i)*time.Millisecond))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.mu.Lock()
		q.waiting.remove(0)
		q.mu.Unlock()
		q.Set(&timers[i%len(timers)], now.Add(time.Hour+time.Duration(i+1000)*time.Millisecond))
	}
}
