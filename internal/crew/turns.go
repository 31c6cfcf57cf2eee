package crew

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A yield of longYield or more counts against a budget. Yields may take yieldBurst in a row,
// and one part in yieldShare of the time in the long run.
//
// If other goroutines compute without a pause, a yield lasts until each of them has had the
// 10 ms that the runtime gives it. Without a budget, bulk would come to a standstill.
const (
	longYield  = 5 * time.Millisecond
	yieldBurst = 100 * time.Millisecond
	yieldShare = 20
)

// mostTurn is the time after which a turn of Do ends even if its function still runs. The
// work of a turn takes milliseconds. A function that runs this long is blocked or competes
// with a hundred goroutines that compute without a pause.
const mostTurn = time.Second

// Turns limits how many goroutines do heavy work at once and lets all other runnable
// goroutines go first. Without it, a goroutine needed by play (game traffic: everything but
// bulk) would wait for a processor after every goroutine with heavy work. Goroutines get
// turns in the order in which they ask. All methods may be called concurrently.
type Turns struct {
	tokens chan struct{} // one for each turn taken
	began  time.Time     // origin of paid
	// Nanoseconds since began after which the yields so far are within yieldShare. Written by
	// yield.
	paid atomic.Int64
}

// NewTurns returns Turns for n goroutines at once.
func NewTurns(n int) *Turns { return &Turns{tokens: make(chan struct{}, n), began: time.Now()} }

// Take waits for a turn and returns true. It returns false once stop is closed or has a
// value. The caller ends the turn with [Turns.End].
//
// Take yields the processor before it returns with a turn. The runtime runs a goroutine that
// was just woken before those that were already runnable. Without the yield, heavy work would
// pass its processor only to other heavy work.
func (t *Turns) Take(stop <-chan struct{}) bool {
	select {
	case t.tokens <- struct{}{}:
		t.yield()
		return true
	case <-stop:
		return false
	}
}

// Do runs fn in a turn and returns true. If Take returns false, Do returns false without
// running fn.
//
// The turn ends after mostTurn even if fn still runs. fn may call functions of the game, and
// one of them may block, even on a goroutine that waits for a turn.
func (t *Turns) Do(stop <-chan struct{}, fn func()) bool {
	if !t.Take(stop) {
		return false
	}
	over := time.AfterFunc(mostTurn, t.End)
	defer func() {
		if over.Stop() {
			t.End()
		}
	}()
	fn()
	return true
}

// yield lets other goroutines run first unless the budget is used up. If long yields overlap,
// only the last one to end is charged to the budget, which need not be exact.
func (t *Turns) yield() {
	now := time.Since(t.began)
	paid := time.Duration(t.paid.Load())
	if paid-now > yieldShare*yieldBurst {
		return
	}
	runtime.Gosched()
	if took := time.Since(t.began) - now; took >= longYield {
		t.paid.Store(int64(max(now, paid) + yieldShare*took))
	}
}

// End ends a turn. It must be called exactly once for each Take that returned true.
func (t *Turns) End() { <-t.tokens }
