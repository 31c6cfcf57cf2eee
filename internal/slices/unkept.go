package slices

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// mostResends is the number of times unkept doubles its wait. The wait reaches 16 s between
// two resends of everything that a peer without memory refuses, at most 8 MiB.
const mostResends = 4

// unkept decides when to resend slices that arrived, according to the path, but that no ack
// has acknowledged. Only an ack shows that the peer kept a slice. A peer that keeps none has
// no memory, because its other peers use it, perhaps for a long time.
type unkept struct {
	// When a slice was last sent or arrived on a path that reports fates, or
	// the path last changed; zero = never.
	since   time.Time
	resends int // times in a row all slices were queued again without an ack of a new slice
}

// at returns the time at which all unacked slices are queued again, whatever the path is by
// then. ok is false while slices are in flight.
func (u *unkept) at(o *outbox) (at time.Time, ok bool) {
	if u.since.IsZero() || o.idle() || o.flight.count > 0 {
		return at, false
	}
	return u.since.Add(recovery.KeepTime << min(u.resends, mostResends)), true
}

// leftPath is an earlier path that did not report fates. Slices sent on it may still be
// acked, until they have had enough time for that.
type leftPath struct {
	below uint64    // lower-numbered sendings used the path; 0 = none of them is left
	until time.Time // when those sendings are declared lost
}

// giveUp declares slices lost that were not acked in time.
func (p *leftPath) giveUp(now time.Time, o *outbox) {
	if p.below == 0 || now.Before(p.until) {
		return
	}
	for n := o.flight.Oldest; n < p.below; n++ {
		o.lose(n)
	}
	p.below = 0
}
