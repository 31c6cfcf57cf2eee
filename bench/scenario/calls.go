package scenario

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// Modes of calls.
const (
	ModeRoundTrip = "one at a time"
	ModeChained   = "each from the answer to the last"
	ModePipelined = "64 in flight"
	ModeOneWay    = "one-way"
)

const (
	inFlight  = 64
	warmCalls = 500
	// oneWayCalls is how many calls are made between two checks of the time.
	oneWayCalls = 100_000
)

// calls measures small calls on the loopback for Job.Seconds.
func calls(ctx context.Context, j job.Job, r *job.Result) error {
	switch j.Mode {
	case ModeOneWay:
		return shouts(ctx, j, r)
	case ModeChained:
		return chained(ctx, j, r)
	}
	s, err := open[peer.Caller](ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	argument := content(j.Size, j.Seed)
	for range warmCalls {
		if err := s.pair.Call(ctx, argument); err != nil {
			return err
		}
	}
	m := startMeter()
	var made int
	if j.Mode == ModePipelined {
		made, err = pipelined(ctx, s.pair, argument, j.Seconds)
	} else {
		var latencies []time.Duration
		latencies, err = roundTrips(ctx, s.pair, argument, j.Seconds)
		made = len(latencies)
		defer quantiles(r, latencies, time.Microsecond, "_us")
	}
	m.file(r, made)
	return err
}

func roundTrips(ctx context.Context, c peer.Caller, argument []byte, span time.Duration) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, 1<<18)
	for begin := time.Now(); time.Since(begin) < span; {
		at := time.Now()
		if err := c.Call(ctx, argument); err != nil {
			return latencies, err
		}
		latencies = append(latencies, time.Since(at))
	}
	return latencies, nil
}

// chained measures calls that are made by the handler of the previous answer, so that no goroutine
// waits.
func chained(ctx context.Context, j job.Job, r *job.Result) error {
	s, err := open[peer.Chainer](ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	argument := content(j.Size, j.Seed)
	left := warmCalls
	if err := s.pair.Chain(ctx, argument, func() bool { left--; return left > 0 }); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	latencies := make([]time.Duration, 0, 1<<18)
	m := startMeter()
	at := m.begin
	err = s.pair.Chain(ctx, argument, func() bool {
		now := time.Now()
		latencies = append(latencies, now.Sub(at))
		at = now
		return now.Sub(m.begin) < j.Seconds
	})
	m.file(r, len(latencies))
	quantiles(r, latencies, time.Microsecond, "_us")
	return err
}

func pipelined(ctx context.Context, c peer.Caller, argument []byte, span time.Duration) (int, error) {
	var made atomic.Int64
	var work sync.WaitGroup
	failed := make(chan error, inFlight)
	begin := time.Now()
	for range inFlight {
		work.Go(func() {
			for time.Since(begin) < span {
				if err := c.Call(ctx, argument); err != nil {
					failed <- err
					return
				}
				made.Add(1)
			}
		})
	}
	work.Wait()
	select {
	case err := <-failed:
		return int(made.Load()), err
	default:
		return int(made.Load()), nil
	}
}

// shouts measures calls without answers.
func shouts(ctx context.Context, j job.Job, r *job.Result) error {
	s, err := open[peer.Shouter](ctx, j)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(ctx, j.Seconds+time.Minute)
	defer cancel()
	argument := content(j.Size, j.Seed)
	if err := s.pair.Shout(ctx, argument, oneWayCalls/10); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	m := startMeter()
	made := 0
	for time.Since(m.begin) < j.Seconds {
		if err := s.pair.Shout(ctx, argument, oneWayCalls); err != nil {
			return err
		}
		made += oneWayCalls
	}
	m.file(r, made)
	return nil
}

// A meter measures the cost of a series of calls.
type meter struct {
	begin   time.Time
	cpu     time.Duration
	mallocs uint64
}

func startMeter() meter {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return meter{time.Now(), cpuTime(), m.Mallocs}
}

func (m meter) file(r *job.Result, made int) {
	span, cpu := time.Since(m.begin), cpuTime()-m.cpu
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	r.Set("calls_per_second", float64(made)/span.Seconds())
	r.Set("cpu_us_per_call", float64(cpu.Microseconds())/float64(made))
	r.Set("allocs_per_call", float64(now.Mallocs-m.mallocs)/float64(made))
}
