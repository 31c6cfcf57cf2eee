package slices

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// maxResends is how often a keepTimer doubles its wait. From then on it waits for 16 s before it
// again resends everything that a peer without memory refuses, which is at most 8 MiB.
const maxResends = 4

// A keepTimer decides when to resend slices that arrived, as far as the path knows, but were
// never acked. Only an ack shows that the peer has kept a slice. A peer that keeps none has run out
// of memory because its other peers are using it, and that may last for a long time.
type keepTimer struct {
	since   time.Time // when a slice was last sent or arrived on a path with fates, or the path changed; 0 = never
	resends int       // how often in a row we resent everything without an ack of anything new
}

// restart starts the wait again, because a slice was sent or arrived on a path with fates.
func (t *keepTimer) restart(now time.Time) { t.since = now }

// acked is called when the peer acks something new, which shows that it has memory again.
func (t *keepTimer) acked() { t.resends = 0 }

// at returns when to resend all unacked slices, no matter which path we use now. ok is false while
// some are in flight.
func (t *keepTimer) at(o *outbox) (at time.Time, ok bool) {
	if t.since.IsZero() || o.idle() || o.flight.count > 0 {
		return at, false
	}
	return t.since.Add(recovery.KeepTime << min(t.resends, maxResends)), true
}

// advance resends all unacked slices if it's time to.
func (t *keepTimer) advance(now time.Time, o *outbox) {
	if at, ok := t.at(o); ok && !now.Before(at) {
		t.since = now
		t.resends++
		o.resendAll()
	}
}
