package slices

import "time"

// earliest is the earliest of the times that were added.
type earliest struct {
	at  time.Time
	any bool
}

func (e *earliest) add(at time.Time, ok bool) {
	if ok && (!e.any || at.Before(e.at)) {
		e.at, e.any = at, true
	}
}
