package link

import "time"

// Rate is what a connection may send over all its carriers. It holds back unreliable data and bulk; acks, control, resends
// and reliable play pass, and are counted. Its methods are called under the link's lock.
type Rate interface {
	// Play returns how long unreliable data must wait.
	Play(now time.Time) time.Duration
	// Bulk returns how long bulk must wait. It is asked while some waits, and takes a place among others who share the rate.
	Bulk(now time.Time) time.Duration
	// Spend counts a datagram that leaves.
	Spend(now time.Time, bytes int)
}

// rated are the machines of a link that has a rate.
type rated struct {
	rate       Rate // nil = none
	play, bulk time.Duration
}

// hold has the machines keep back what the rate does not allow now.
func (l *Link) hold(now time.Time) {
	r := &l.rated
	if r.rate == nil {
		return
	}
	unreliable, bulk := false, false
	for i := range l.slots {
		if h := l.slots[i].hold; h != nil {
			u, b := h.Waiting()
			unreliable, bulk = unreliable || u, bulk || b
		}
	}
	r.play, r.bulk = 0, 0
	if unreliable {
		r.play = r.rate.Play(now)
	}
	if bulk {
		r.bulk = r.rate.Bulk(now)
	}
	for i := range l.slots {
		if h := l.slots[i].hold; h != nil {
			h.Hold(r.play > 0, r.bulk > 0)
		}
	}
}

// spend counts a datagram.
func (r *rated) spend(now time.Time, bytes int) {
	if r.rate != nil {
		r.rate.Spend(now, bytes)
	}
}

// until returns when something that is held may leave, zero when nothing is.
func (r *rated) until(now time.Time) time.Time {
	switch {
	case r.play > 0 && (r.bulk == 0 || r.play < r.bulk):
		return now.Add(r.play)
	case r.bulk > 0:
		return now.Add(r.bulk)
	}
	return time.Time{}
}
