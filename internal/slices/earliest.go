package slices

import "time"

// earliest is the earliest of the times that were added.
type earliest struct {
	at    time.Time
	known bool // a time was added
}

// add adds at, if ok.
func (e *earliest) add(at time.Time, ok bool) {
	if ok && (!e.known || at.Before(e.at)) {
		e.at, e.known = at, true
	}
}
