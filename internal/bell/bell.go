// Package bell wakes a goroutine that waits in a select. It also has functions that receive
// without waiting.
package bell

// A Bell wakes one receiver after any number of rings. A ring lasts until it is received, and
// further rings have no effect until then.
type Bell chan struct{}

// New returns a bell that hasn't rung.
func New() Bell { return make(Bell, 1) }

// Ring rings the bell. It never blocks and may be called concurrently.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Pending reports whether the bell has rung since the ring was last received. It leaves the ring.
func (b Bell) Pending() bool { return len(b) > 0 }

// Heard reports whether the bell rang, and clears the ring. It doesn't wait.
func (b Bell) Heard() bool { return tryReceive(b) }

// Closed reports whether a channel on which nothing is sent is closed. It doesn't wait.
func Closed(done <-chan struct{}) bool { return tryReceive(done) }

// tryReceive receives without waiting. It reports whether there was a value or the channel is
// closed.
func tryReceive(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
