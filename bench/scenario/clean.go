package scenario

import (
	"context"
	"errors"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// warmBytes is how much is sent before the measured blob, so that windows and buffers have reached
// their full size.
const warmBytes = 8 << 20

// cleanLimit is how long each transfer may take.
const cleanLimit = time.Minute

// clean moves a blob over the bare loopback, and records MB/s, CPU seconds per GB, and the peak of
// the heap without the blob itself.
func clean(ctx context.Context, j job.Job, r *job.Result) error {
	data := content(j.Size, j.Seed)
	runtime.GC()
	idle := heap()
	s, err := open[peer.Mover](ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := move(ctx, s.pair, data[:min(warmBytes, len(data)/8)], cleanLimit); err != nil {
		return err
	}
	most := watchHeap()
	before := cpuTime()
	took, err := move(ctx, s.pair, data, cleanLimit)
	used := cpuTime() - before
	if errors.Is(err, errCut) {
		r.Cut, err = true, nil
	}
	r.Set("mb_per_second", float64(j.Size)/1e6/took.Seconds())
	r.Set("cpu_seconds_per_gb", used.Seconds()/(float64(j.Size)/1e9))
	r.Set("peak_heap_mb", float64(most()-min(idle, most()))/1e6)
	return err
}

// heap returns how many bytes objects occupy, including dead ones.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// watchHeap watches the heap until the returned function is called, which returns the peak.
func watchHeap() (most func() uint64) {
	var work sync.WaitGroup
	var peak uint64
	stop := make(chan struct{})
	work.Go(func() {
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			peak = max(peak, heap())
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	})
	return sync.OnceValue(func() uint64 {
		close(stop)
		work.Wait()
		return peak
	})
}
