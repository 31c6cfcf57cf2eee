// Package bell wakes a goroutine that waits in a select, and asks what it would wait for.
package bell

// Bell wakes one receiver after any number of rings: a ring that nobody has heard yet lasts, and further ones add nothing to it.
type Bell chan struct{}

// New returns a bell that has not rung.
func New() Bell { return make(Bell, 1) }

// Ring never blocks, and is safe for concurrent use.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Heard reports whether the bell has rung, and forgets it. It does not wait.
func (b Bell) Heard() bool { return ready(b) }

// Closed reports whether a channel on which nothing is sent is closed. It does not wait.
func Closed(done <-chan struct{}) bool { return ready(done) }

// ready receives without waiting, and reports whether there was something to receive.
func ready(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
