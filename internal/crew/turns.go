package crew

import "runtime"

// Turns bounds how many goroutines do heavy work at once, and lets whatever else is ready go first. Of a hundred goroutines that were all
// ready, every one that play needs would wait for its processor behind all of them. Goroutines get turns in the order in which they ask.
// All methods may be called concurrently.
type Turns chan struct{}

// NewTurns lets n goroutines work at once.
func NewTurns(n int) Turns { return make(Turns, n) }

// Take waits for a turn, which [Turns.End] ends; it is false when stop has a value or is closed first. Then it yields: the runtime has a
// goroutine that another wakes run before all that are ready already, and so heavy work would hand on its processor to heavy work alone.
func (t Turns) Take(stop <-chan struct{}) bool {
	select {
	case t <- struct{}{}:
		runtime.Gosched()
		return true
	case <-stop:
		return false
	}
}

// End lets another goroutine have the turn that Take has given.
func (t Turns) End() { <-t }
