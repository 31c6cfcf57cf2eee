package slices

import "time"

// earliest is the first of some times.
type earliest struct {
	at  time.Time
	any bool
}

func (e *earliest) of(at time.Time, ok bool) {
	if ok && (!e.any || at.Before(e.at)) {
		e.at, e.any = at, true
	}
}
