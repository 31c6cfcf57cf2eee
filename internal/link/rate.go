package link

import "time"

// Rate limits what a connection sends over all its carriers. It holds back unreliable data and bulk; acks, control, resends
// and reliable play pass, and are counted. Its methods are called under the link's lock.
type Rate interface {
	// Play returns how long unreliable data must wait.
	Play(now time.Time) time.Duration
	// Bulk returns how long bulk must wait. It is called only while bulk waits, because it counts the caller among those that share the rate.
	Bulk(now time.Time) time.Duration
	// Spend counts a datagram that leaves.
	Spend(now time.Time, bytes int)
}

// rated remembers what the rate of a link holds back. The link's lock guards it.
type rated struct {
	rate       Rate      // nil = no limit
	play, bulk time.Time // when unreliable data and bulk may leave again; zero = they are not held back
	holding    bool      // the last call of Machine.Hold held something back
}

// spend counts a datagram that leaves.
func (r *rated) spend(now time.Time, bytes int) {
	if r.rate != nil {
		r.rate.Spend(now, bytes)
	}
}

// Rated reports whether the rate, and not the carrier's pace, holds back bulk. It is called under the lock.
func (l *Link) Rated() bool { return !l.rated.bulk.IsZero() }

// holdBack tells the machines what to hold back: what the rate does not allow now, and all bulk if paced, because the carrier's pace has no room
// for it. The caller holds the lock.
func (l *Link) holdBack(now time.Time, paced bool) {
	r := &l.rated
	if r.rate != nil {
		l.askRate(now)
	}
	play, bulk := !r.play.IsZero(), paced || !r.bulk.IsZero()
	if !play && !bulk && !r.holding {
		return
	}
	r.holding = play || bulk
	for i := range l.slots {
		l.slots[i].Hold(play, bulk)
	}
}

// askRate asks the rate how long unreliable data and bulk must wait, if a machine has some that could leave. The caller holds the lock.
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

// after returns the end of a wait that begins now; zero when there is none to wait for.
func after(now time.Time, wait time.Duration) time.Time {
	if wait <= 0 {
		return time.Time{}
	}
	return now.Add(wait)
}
