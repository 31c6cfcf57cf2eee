package scenario

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// Modes of late joins: the direction of the blobs.
const (
	ModeDown = "down"
	ModeUp   = "up"
)

// bystanderBeat is the interval between calls of the client that moves nothing. It doesn't wait for
// answers.
const bystanderBeat = 5 * time.Millisecond

// latejoin lets many clients download or upload a blob at once, while a bystander makes calls. It
// records time, CPU time, memory, and how long the bystander's calls take.
func latejoin(ctx context.Context, j job.Job, r *job.Result) error {
	s, err := open[peer.Rusher](ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	joining, cancel := context.WithTimeout(ctx, gatherTime)
	defer cancel()
	if err := s.pair.Invite(joining, j.Count); err != nil {
		return err
	}
	time.Sleep(settleTime)
	r.Set("idle_rss_mib", float64(resident())/(1<<20))
	data := content(j.Size, j.Seed)
	most := watchHeap()
	b := watchBystander(ctx, s.pair, content(messageBytes, j.Seed))
	cpu := cpuTime()
	took, err := rush(ctx, s.pair, data, j)
	used := cpuTime() - cpu
	quantiles(r, b.stop(), time.Millisecond, "_ms")
	if errors.Is(err, errCut) {
		r.Cut, err = true, nil
	}
	r.Set("seconds", took.Seconds())
	r.Set("mb_per_second", float64(j.Size)*float64(j.Count)/1e6/took.Seconds())
	r.Set("cpu_seconds", used.Seconds())
	r.Set("peak_rss_mib", float64(peakResident())/(1<<20))
	r.Set("peak_heap_mib", float64(most())/(1<<20))
	return err
}

// rush moves all blobs at once and returns how long that took.
func rush(ctx context.Context, p peer.Rusher, data []byte, j job.Job) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, j.Limit(), errCut)
	defer cancel()
	begin := time.Now()
	err := p.Rush(ctx, data, j.Mode == ModeUp)
	return time.Since(begin), err
}

// A bystander makes calls at a fixed interval.
type bystander struct {
	end  chan struct{}
	work sync.WaitGroup

	mu        sync.Mutex
	latencies []time.Duration
}

func watchBystander(ctx context.Context, c peer.Caller, argument []byte) *bystander {
	b := &bystander{end: make(chan struct{})}
	b.work.Go(func() {
		ticker := time.NewTicker(bystanderBeat)
		defer ticker.Stop()
		for {
			select {
			case <-b.end:
				return
			case at := <-ticker.C:
				b.work.Go(func() { b.call(ctx, c, argument, at) })
			}
		}
	})
	return b
}

func (b *bystander) call(ctx context.Context, c peer.Caller, argument []byte, at time.Time) {
	if c.Call(ctx, argument) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latencies = append(b.latencies, time.Since(at))
}

// stop stops the calls and returns how long each took.
func (b *bystander) stop() []time.Duration {
	close(b.end)
	b.work.Wait()
	return b.latencies
}
