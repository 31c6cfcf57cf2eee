package crew

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A yield of longYield or more counts against a budget. Yields may take yieldBurst in a row, and
// one part in yieldShare of the time in the long run.
//
// The budget keeps heavy work from coming to a standstill if other goroutines compute without a
// pause, because a yield then lasts until each of them has used the 10 ms that the runtime gives
// it.
const (
	longYield  = 5 * time.Millisecond
	yieldBurst = 100 * time.Millisecond
	yieldShare = 20
)

// maxTurn is the time after which a turn of Do ends even if its function is still running. The work
// of a turn takes milliseconds, so a function that runs this long is blocked or competes with about
// a hundred goroutines that compute without a pause.
const maxTurn = time.Second

// Turns limits how many goroutines do heavy work at once, and lets all other runnable goroutines go
// first. Without it, a goroutine that play (the game's own traffic) needs would get a processor
// only after every goroutine with heavy work. Goroutines get turns in the order in which they ask.
// All methods may be called concurrently.
type Turns struct {
	semaphore chan struct{} // holds a value for each turn taken
	epoch     time.Time     // origin of paid
	// Nanoseconds since epoch at which the yields so far will be down to yieldShare of the time.
	// Written by yield.
	paid atomic.Int64
}

// NewTurns returns Turns for n goroutines at once.
func NewTurns(n int) *Turns { return &Turns{semaphore: make(chan struct{}, n), epoch: time.Now()} }

// Take waits for a turn and returns true, after which the caller must end the turn with
// [Turns.End]. It returns false once stop is closed or has a value.
//
// Take yields the processor before it returns with a turn. Without the yield, heavy work would pass
// its processor only to other heavy work, because the runtime runs a goroutine that was just woken
// before those that were already runnable.
func (t *Turns) Take(stop <-chan struct{}) bool {
	select {
	case t.semaphore <- struct{}{}:
		t.yield()
		return true
	case <-stop:
		return false
	}
}

// Do runs fn in a turn and returns true. If Take returns false, it returns false without running
// fn.
//
// The turn ends after maxTurn even if fn is still running, because fn may call functions of the
// game, which may block, even on a goroutine that waits for a turn.
func (t *Turns) Do(stop <-chan struct{}, fn func()) bool {
	if !t.Take(stop) {
		return false
	}
	timeout := time.AfterFunc(maxTurn, t.End)
	defer func() {
		if timeout.Stop() {
			t.End()
		}
	}()
	fn()
	return true
}

// yield lets other goroutines run first, unless the budget is used up. If long yields overlap, it
// charges only the last one to end, because the budget need not be exact.
func (t *Turns) yield() {
	now := time.Since(t.epoch)
	paid := time.Duration(t.paid.Load())
	if paid-now > yieldShare*yieldBurst {
		return
	}
	runtime.Gosched()
	if took := time.Since(t.epoch) - now; took >= longYield {
		t.paid.Store(int64(max(now, paid) + yieldShare*took))
	}
}

// End ends a turn. It must be called exactly once for each Take that returned true.
func (t *Turns) End() { <-t.semaphore }
