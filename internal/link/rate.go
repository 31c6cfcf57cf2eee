package link

import "time"

// A Rate limits what a connection sends over all its carriers. It holds back unreliable data
// and bulk. Acks, control, resends and reliable play are counted but not held back. Its
// methods are called under the link's lock.
type Rate interface {
	// Play returns the time unreliable data must wait.
	Play(now time.Time) time.Duration
	// Bulk returns the time bulk must wait. It is called only while bulk waits, because a
	// call makes the caller one of the connections that share the rate.
	Bulk(now time.Time) time.Duration
	// Spend counts a datagram that is sent.
	Spend(now time.Time, bytes int)
}

// rated is the traffic a link's rate holds back. The link's lock guards it.
type rated struct {
	rate    Rate      // nil if there is no limit
	play    time.Time // when unreliable data may be sent again; zero if it is not held back
	bulk    time.Time // the same for bulk
	holding bool      // the last call of Machine.Hold held something back
}

// spend counts a datagram that is sent.
func (r *rated) spend(now time.Time, bytes int) {
	if r.rate != nil {
		r.rate.Spend(now, bytes)
	}
}

// Rated reports whether the rate, rather than the carrier's pace, holds back bulk. The caller
// holds the lock.
func (l *Link) Rated() bool { return !l.rated.bulk.IsZero() }

// holdBack makes the machines hold back what the rate does not allow now. If paced is true,
// they hold back all bulk, because the carrier's pace has no room for it. The caller holds
// the lock.
func (l *Link) holdBack(now time.Time, paced bool) {
	r := &l.rated
	if r.rate != nil {
		l.askRate(now)
	}
	play := !r.play.IsZero()
	bulk := paced || !r.bulk.IsZero()
	if !play && !bulk && !r.holding {
		return
	}
	r.holding = play || bulk
	for i := range l.slots {
		l.slots[i].Hold(play, bulk)
	}
}

// askRate asks the rate how long unreliable data and bulk must wait, if a machine has any
// that could be sent. The caller holds the lock.
func (l *Link) askRate(now time.Time) {
	r := &l.rated
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
		r.bulk = after(now, r.rate.Bulk(now))
	}
}

// after returns now+wait, or zero if wait is not positive.
func after(now time.Time, wait time.Duration) time.Time {
	if wait <= 0 {
		return time.Time{}
	}
	return now.Add(wait)
}
