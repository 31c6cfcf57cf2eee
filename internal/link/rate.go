package link

import "time"

// A Rate limits how fast a connection may send, counting all its carriers together. It only holds
// back unreliable data and bulk (transfers). Acks, control messages, resends and reliable play
// count as well, but never have to wait. Its methods are called with the link's lock held.
type Rate interface {
	// Play returns how long unreliable data must wait.
	Play(now time.Time) time.Duration

	// BookBulk books the connection's next turn to send bulk, unless it has one, and returns how
	// long bulk must wait for it. A turn takes a share of the rate, so a connection must not book
	// one unless it has bulk to send.
	BookBulk(now time.Time) time.Duration

	// Spend counts a datagram when it is sent.
	Spend(now time.Time, bytes int)
}

// A limiter holds back what a Rate doesn't allow yet. It is guarded by the link's lock.
type limiter struct {
	rate    Rate      // nil if there is no limit
	play    time.Time // when unreliable data may be sent again; zero if it isn't held back
	bulk    time.Time // the same for bulk
	holding bool      // we told the machines to hold something back and haven't released it yet
}

// spend counts a datagram when it is sent.
func (r *limiter) spend(now time.Time, bytes int) {
	if r.rate != nil {
		r.rate.Spend(now, bytes)
	}
}

// Rated reports whether bulk is held back by the rate rather than by the carrier's pacer. The
// caller holds the lock.
func (l *Link) Rated() bool { return !l.limiter.bulk.IsZero() }

// holdBack tells the machines what to hold back for now: everything that the rate doesn't allow,
// and all bulk if paced is set, which means that the carrier's pacer has no room for it. The
// caller holds the lock.
func (l *Link) holdBack(now time.Time, paced bool) {
	r := &l.limiter
	if r.rate != nil {
		l.askRate(now)
	}
	play := !r.play.IsZero()
	bulk := paced || !r.bulk.IsZero()
	if !play && !bulk && !r.holding {
		// Nothing is held back, and the machines know it.
		return
	}
	r.holding = play || bulk
	for i := range l.slots {
		l.slots[i].Hold(play, bulk)
	}
}

// askRate asks the rate how long unreliable data and bulk must wait. It asks for each of them
// only if a machine has some that could be sent otherwise. The caller holds the lock.
func (l *Link) askRate(now time.Time) {
	r := &l.limiter
	unreliable, bulk := false, false
	for i := range l.slots {
		u, b := l.slots[i].Waiting()
		unreliable, bulk = unreliable || u, bulk || b
	}
	r.play, r.bulk = time.Time{}, time.Time{}
	if unreliable {
		r.play = after(now, r.rate.Play(now))
	}
	if bulk {
		r.bulk = after(now, r.rate.BookBulk(now))
	}
}

// after returns now+wait, or zero if wait is not positive.
func after(now time.Time, wait time.Duration) time.Time {
	if wait <= 0 {
		return time.Time{}
	}
	return now.Add(wait)
}
