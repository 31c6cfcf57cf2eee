package pool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
)

const (
	// beat is how often the pool checks whether the machine runs.
	beat = 5 * time.Millisecond
	// leastStall is the shortest stall that spoils a run in real time; a longer run tolerates more.
	leastStall = 25 * time.Millisecond
	// bearable is the part of a run's ideal time for which the machine may stall.
	// bearableTheft is the share of the cores' time that the host may give to others.
	bearable, bearableTheft = 0.05, 0.1
	// repeats is how often a spoiled run is repeated at most: load that is
	// caused by the run itself returns each time.
	repeats = 2
)

// A disturbance is how much a run in real time was disturbed by its machine.
type disturbance struct {
	stall  time.Duration // the longest stall
	stolen float64       // share of the cores' time that was stolen
}

// of returns how bad that is for a run of the job: above 1 it shows in the figures.
func (d disturbance) of(j job.Job) float64 {
	return max(float64(d.stall)/max(float64(leastStall), bearable*float64(j.Ideal())), d.stolen/bearableTheft)
}

func (d disturbance) String() string {
	return fmt.Sprintf(job.Disturbed+"%v, its host took %s of it", d.stall.Round(time.Millisecond), job.Share(d.stolen))
}

// A watch detects when the machine stands still. A host that lends its cores to
// others takes them away for some time, sometimes for a minute. What is
// measured in real time then describes the host.
type watch struct {
	mu     sync.Mutex
	stalls []stall // a day has few
}

type stall struct {
	until time.Time
	long  time.Duration
}

// run watches until ctx ends.
func (w *watch) run(ctx context.Context) {
	last := time.Now()
	for ctx.Err() == nil {
		time.Sleep(beat)
		now := time.Now()
		w.note(now, now.Sub(last)-beat)
		last = now
	}
}

func (w *watch) note(now time.Time, late time.Duration) {
	if late < leastStall {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls = append(w.stalls, stall{now, late})
}

// longest returns the longest stall that has ended since a time.
func (w *watch) longest(since time.Time) (long time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stalls {
		if s.until.After(since) {
			long = max(long, s.long)
		}
	}
	return long
}
