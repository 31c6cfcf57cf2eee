package slices

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// maxResends is how often unkept doubles its wait. In the end it waits for 16 s before it
// resends again everything that a peer without memory refuses, which is at most 8 MiB.
const maxResends = 4

// An unkept decides when to resend slices that have arrived as far as the path knows, but were
// never acked. Only an ack shows that the peer has kept a slice. A peer that keeps none has no
// memory, because its other peers are using it, and that may last for a long time.
type unkept struct {
	since   time.Time // when one was last sent or arrived on a path with fates, or the path changed; 0 = never
	resends int       // how often in a row we have resent everything without an ack of anything new
}

// at returns when to resend all unacked slices, whatever the path is by then. ok is false while
// some are in flight.
func (u *unkept) at(o *outbox) (at time.Time, ok bool) {
	if u.since.IsZero() || o.idle() || o.flight.count > 0 {
		return at, false
	}
	return u.since.Add(recovery.KeepTime << min(u.resends, maxResends)), true
}

// A leftPath is an earlier path that didn't report fates. What we sent on it may still be acked,
// until it has had enough time for that.
type leftPath struct {
	below uint64    // sendings with lower numbers took this path; 0 if none of them is left
	until time.Time // when we declare those lost
}

// giveUp declares the slices lost that weren't acked in time.
func (p *leftPath) giveUp(now time.Time, o *outbox) {
	if p.below == 0 || now.Before(p.until) {
		return
	}
	for n := o.flight.Oldest; n < p.below; n++ {
		o.lose(n)
	}
	p.below = 0
}
