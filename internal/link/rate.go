package link

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Rate limits how fast a connection may send, counting all its carriers together. It delays only
// unreliable data and bulk (transfers). Acks, control messages, retransmissions and reliable play
// (the game's own traffic) count against the rate as well, but never have to wait. Its methods are
// called with the link's lock held.
type Rate interface {
	// Play returns how long unreliable data must wait.
	Play(now time.Time) time.Duration

	// BookBulk books the connection's next turn to send bulk, unless it has one already, and
	// returns how long bulk must wait for that turn. A turn uses up a share of the rate, so a
	// connection must not book one unless it has bulk to send.
	BookBulk(now time.Time) time.Duration

	// Spend counts a datagram when it is sent.
	Spend(now time.Time, bytes int)
}

// A limiter delays what a Rate doesn't allow yet. It is guarded by the link's lock.
type limiter struct {
	rate       Rate      // nil if there is no limit
	unreliable time.Time // when unreliable data may be sent again; zero if it may be sent now
	bulk       time.Time // the same for bulk
	holding    bool      // the last Hold told the machines to hold something
}

// delaysUnreliable reports whether unreliable data has to wait for the rate.
func (r *limiter) delaysUnreliable() bool { return !r.unreliable.IsZero() }

// delaysBulk reports whether bulk has to wait for the rate.
func (r *limiter) delaysBulk() bool { return !r.bulk.IsZero() }

// addTimeouts adds when the rate allows what it delays now.
func (r *limiter) addTimeouts(first *recovery.Earliest) {
	first.Add(r.unreliable, r.delaysUnreliable())
	first.Add(r.bulk, r.delaysBulk())
}

// update asks the rate how long unreliable data and bulk must wait. It asks for each of them only
// if a machine has some that could be sent otherwise.
func (r *limiter) update(now time.Time, slots []slot) {
	if r.rate == nil {
		return
	}
	unreliable, bulk := false, false
	for i := range slots {
		u, b := slots[i].Waiting()
		unreliable = unreliable || u
		bulk = bulk || b
	}
	r.unreliable, r.bulk = time.Time{}, time.Time{}
	if unreliable {
		r.unreliable = after(now, r.rate.Play(now))
	}
	if bulk {
		r.bulk = after(now, r.rate.BookBulk(now))
	}
}

// spend counts a datagram when it is sent.
func (r *limiter) spend(now time.Time, bytes int) {
	if r.rate != nil {
		r.rate.Spend(now, bytes)
	}
}

// Rated reports whether bulk waits for the rate rather than for the carrier's pacer. The caller
// holds the lock.
func (l *Link) Rated() bool { return l.limiter.delaysBulk() }

// holdBack tells the machines what not to send for now: everything that the rate doesn't allow, and
// all bulk if paced is set, which means that the carrier's pacer has no room for it. The caller
// holds the lock.
func (l *Link) holdBack(now time.Time, paced bool) {
	r := &l.limiter
	r.update(now, l.slots)
	unreliable := r.delaysUnreliable()
	bulk := paced || r.delaysBulk()
	if !unreliable && !bulk && !r.holding {
		// The machines hold nothing already.
		return
	}
	r.holding = unreliable || bulk
	for i := range l.slots {
		l.slots[i].Hold(unreliable, bulk)
	}
}

// after returns now+wait, or zero if wait isn't positive.
func after(now time.Time, wait time.Duration) time.Time {
	if wait <= 0 {
		return time.Time{}
	}
	return now.Add(wait)
}
