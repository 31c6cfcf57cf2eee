// Package bell wakes a goroutine that waits in a select. It also has functions that receive
// without waiting.
package bell

// A Bell wakes one receiver after any number of rings. A ring lasts until it is heard, and
// further rings have no effect until then.
type Bell chan struct{}

// New returns a bell that has not rung.
func New() Bell { return make(Bell, 1) }

// Ring rings the bell. It never blocks and may be called concurrently.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Heard reports whether the bell has rung, and clears the ring. It does not wait.
func (b Bell) Heard() bool { return ready(b) }

// Closed reports whether a channel on which nothing is sent is closed. It does not wait.
func Closed(done <-chan struct{}) bool { return ready(done) }

// ready receives without waiting. It reports whether there was a value or the channel is
// closed.
func ready(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
