package slices

import "time"

// An oldPath is an earlier path that didn't report fates. The peer may still ack what we sent on
// it, until that would take too long.
type oldPath struct {
	below uint64    // sendings with lower numbers took this path; 0 if none of them is left
	until time.Time // when we declare those lost
}

// at returns when to declare the path's remaining sendings lost. ok is false if there are none.
func (p *oldPath) at() (at time.Time, ok bool) { return p.until, p.below > 0 }

// advance declares sendings lost that weren't acked in time.
func (p *oldPath) advance(now time.Time, o *outbox) {
	if at, ok := p.at(); !ok || now.Before(at) {
		return
	}
	for n := o.flight.Oldest; n < p.below; n++ {
		o.lose(n)
	}
	p.below = 0
}
