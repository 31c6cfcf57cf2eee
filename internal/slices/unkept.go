package slices

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// mostResends is how many times unkept doubles its wait: to 16 s between two resends of all that a peer without memory refuses, 8 MiB
// at most.
const mostResends = 4

// unkept decides when slices leave again that a path with fates has called arrived, but that no ack has named: only an ack says that the
// peer has kept a slice. A peer that keeps none has no memory, because its other peers hold it, perhaps for long.
type unkept struct {
	since   time.Time // when a slice last left or arrived on a path that tells fates, or the path last changed; zero = never
	resends int       // how often in a row all slices were scheduled again without an ack of a new one
}

// at returns when all slices without an ack leave again, whatever path there is by then. ok is false while slices are in flight.
func (u *unkept) at(o *outbox) (at time.Time, ok bool) {
	if u.since.IsZero() || o.idle() || o.flight.count > 0 {
		return at, false
	}
	return u.since.Add(recovery.KeepTime << min(u.resends, mostResends)), true
}

// leftPath is a path without fates that was left. Slices that took it may still be acked, until they have had time for that.
type leftPath struct {
	below uint64    // sendings with lower numbers took the path; 0 = none of them is left
	until time.Time // when they are given up
}

// giveUp gives up the slices that were not acked in time.
func (p *leftPath) giveUp(now time.Time, o *outbox) {
	if p.below == 0 || now.Before(p.until) {
		return
	}
	for n := o.flight.Oldest; n < p.below; n++ {
		o.lose(n)
	}
	p.below = 0
}
