package pool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
)

const (
	// beat is the interval at which the pool checks whether the machine is running.
	beat = 5 * time.Millisecond
	// minStall is the shortest stall that disturbs a run in real time. A longer run tolerates
	// longer stalls.
	minStall = 25 * time.Millisecond
	// maxStallPart is the part of a run's ideal time for which the machine may stall. maxStolen is
	// the share of the cores' time that the host may give to others.
	maxStallPart, maxStolen = 0.05, 0.1
	// repeats is how often a disturbed run is repeated. More wouldn't help if the run itself causes
	// the load.
	repeats = 2
)

// A disturbance is how much a run in real time was disturbed by its machine.
type disturbance struct {
	stall  time.Duration // the longest stall
	stolen float64       // share of the cores' time that was stolen
}

// of returns how much the disturbance affects a run of the job. Above 1, it shows in the figures.
func (d disturbance) of(j job.Job) float64 {
	return max(float64(d.stall)/max(float64(minStall), maxStallPart*float64(j.Ideal())), d.stolen/maxStolen)
}

func (d disturbance) String() string {
	return fmt.Sprintf(job.Disturbed+"%v, its host took %s of it", d.stall.Round(time.Millisecond), job.Share(d.stolen))
}

// A watch detects stalls of the machine. A host that shares its cores may take them away for some
// time, even for a minute, and measurements in real time then describe the host.
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
	if late < minStall {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls = append(w.stalls, stall{now, late})
}

// longest returns the longest stall that ended since a time.
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
