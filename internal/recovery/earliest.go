package recovery

import "time"

// An Earliest is the minimum of several times, such as the next timeout of a machine with
// several timers.
type Earliest struct {
	at    time.Time
	known bool // a time has been added
}

// Add adds at if ok is true.
func (e *Earliest) Add(at time.Time, ok bool) {
	if ok && (!e.known || at.Before(e.at)) {
		e.at = at
		e.known = true
	}
}

// Time returns the earliest time. ok is false if none was added.
func (e *Earliest) Time() (at time.Time, ok bool) { return e.at, e.known }
