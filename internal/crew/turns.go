package crew

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Yields of longYield and more are counted: together they may take yieldBurst, and a part in yieldShare of the time. Where goroutines compute
// all the time a yield lasts until each of them has had the 10 ms that the runtime gives it, and bulk would stand still.
const (
	longYield  = 5 * time.Millisecond
	yieldBurst = 100 * time.Millisecond
	yieldShare = 20
)

// Turns bounds how many goroutines do heavy work at once, and lets whatever else is ready go first. Of a hundred goroutines that were all
// ready, every one that play needs would wait for its processor behind all of them. Goroutines get turns in the order in which they ask.
// All methods may be called concurrently.
type Turns struct {
	tokens chan struct{}
	began  time.Time
	paid   atomic.Int64 // nanoseconds after began until which the share of the time is spent: a clock that is set back does not change that
}

// NewTurns lets n goroutines work at once.
func NewTurns(n int) *Turns { return &Turns{tokens: make(chan struct{}, n), began: time.Now()} }

// Take waits for a turn, which [Turns.End] ends; it is false when stop has a value or is closed first. Then it yields: the runtime has a
// goroutine that another wakes run before all that are ready already, and so heavy work would hand on its processor to heavy work alone.
func (t *Turns) Take(stop <-chan struct{}) bool {
	select {
	case t.tokens <- struct{}{}:
		t.yield()
		return true
	case <-stop:
		return false
	}
}

// yield lets other goroutines go first, while that is cheap.
func (t *Turns) yield() {
	now, paid := time.Since(t.began), time.Duration(t.paid.Load())
	if paid-now > yieldShare*yieldBurst {
		return
	}
	runtime.Gosched()
	if took := time.Since(t.began) - now; took >= longYield {
		t.paid.Store(int64(max(now, paid) + yieldShare*took))
	}
}

// End lets another goroutine have the turn that Take has given.
func (t *Turns) End() { <-t.tokens }
