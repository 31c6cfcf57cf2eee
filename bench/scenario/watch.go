package scenario

import (
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
)

const (
	lookTime = 5 * time.Millisecond  // between two reads of the counters
	stepTime = 50 * time.Millisecond // interval of a series
)

// watch records the rate at which bytes enter the path, and the length of its queue, until stop is
// called. The queue is what has entered but hasn't had time to leave at the path's rate.
func watch(n emulate.Net, rate int64, r *job.Result) (stop func()) {
	r.Step = stepTime
	r.Series = make(map[string][]float64)
	done := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		w := watcher{rate: float64(rate) / 8, last: time.Now()}
		up, _ := n.Stats()
		w.carried = up.CarriedBytes
		ticker := time.NewTicker(lookTime)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				up, _ := n.Stats()
				w.look(now, up.CarriedBytes, r)
			}
		}
	})
	return func() {
		close(done)
		work.Wait()
	}
}

type watcher struct {
	rate    float64 // bytes a second
	last    time.Time
	carried uint64
	queue   float64

	inStep, highest float64
	stepped         time.Duration
}

func (w *watcher) look(now time.Time, carried uint64, r *job.Result) {
	span, entered := now.Sub(w.last), float64(carried-w.carried)
	w.last, w.carried = now, carried
	w.queue = max(0, w.queue+entered-w.rate*span.Seconds())
	w.inStep += entered
	w.highest = max(w.highest, w.queue)
	if w.stepped += span; w.stepped < stepTime {
		return
	}
	r.Series["mbit_per_second"] = append(r.Series["mbit_per_second"], w.inStep*8/1e6/w.stepped.Seconds())
	r.Series["queue_ms"] = append(r.Series["queue_ms"], w.highest/w.rate*1000)
	w.inStep, w.highest, w.stepped = 0, 0, 0
}
