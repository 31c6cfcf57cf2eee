package crew

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A yield that lasts longYield or more counts against a budget: yieldBurst at once, and one part in yieldShare of the time in the long run. Where
// other goroutines compute without a pause, a yield lasts until each of them has had the 10 ms that the runtime gives it: without a budget
// bulk would stand still.
const (
	longYield  = 5 * time.Millisecond
	yieldBurst = 100 * time.Millisecond
	yieldShare = 20
)

// mostTurn is how long a turn of Do counts. A turn computes for milliseconds. One that takes so long waits for something, unless a hundred
// other goroutines compute without a pause.
const mostTurn = time.Second

// Turns bounds how many goroutines do heavy work at once, and lets all others that are ready go first. If a hundred goroutines with heavy work
// were ready, one that play needs would wait for a processor behind all of them. Goroutines get turns in the order in which they ask. All
// methods may be called concurrently.
type Turns struct {
	tokens chan struct{}
	began  time.Time    // the origin of paid
	paid   atomic.Int64 // nanoseconds since began at which the yields so far are within yieldShare again; yield writes it
}

// NewTurns lets n goroutines work at once.
func NewTurns(n int) *Turns { return &Turns{tokens: make(chan struct{}, n), began: time.Now()} }

// Take waits for a turn, which [Turns.End] ends, or until stop is closed or has a value, and reports whether it has got one. Before it returns
// with a turn, it yields: the runtime runs a goroutine that another has woken before those that were ready already, so otherwise heavy work
// would pass its processor on to nothing but heavy work.
func (t *Turns) Take(stop <-chan struct{}) bool {
	select {
	case t.tokens <- struct{}{}:
		t.yield()
		return true
	case <-stop:
		return false
	}
}

// Do runs fn in a turn. When Take returns false, fn does not run, and Do returns false too. The turn counts for mostTurn at most: fn may call
// functions of the game, and one of them may wait, even for what another goroutine does in its own turn.
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

// yield lets other goroutines go first, while the budget lasts. Of long yields that overlap, the last to end counts: the budget need not be exact.
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

// End ends the turn that Take has given.
func (t *Turns) End() { <-t.tokens }
