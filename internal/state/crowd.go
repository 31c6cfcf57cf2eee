package state

import "time"

// overflow: when more than this share of all connections' packets is lost, the queue that most of them meet is full. One flow of TCP that fills
// a queue loses less.
const overflow = 0.1

// Crowd counts the paces of a server's connections. If most of them have met a queue within calm, it may stand where they share a path, as before the
// server's uplink, and be of their own making. The zero Crowd is that of a server with one connection.
type Crowd struct {
	paces  int     // those in use
	losing int     // of these, those that lose at least half of overflow
	queued int     // of these, those that have met a queue
	high   int     // of those, the ones above the least rate
	lost   float64 // sum of the shares of packets that the paces in use have lost
}

// Add counts a pace; now is that of its last Look, or a little later.
func (c *Crowd) Add(p *Pace, now time.Duration) {
	if now-p.called > idle {
		return
	}
	c.paces++
	c.lost += p.lost
	if p.lost >= overflow/2 {
		c.losing++
	}
	if p.met == 0 {
		return
	}
	c.queued++
	if p.rate > leastRate {
		c.high++
	}
}

// queues reports whether most of the paces have met a queue.
func (c Crowd) queues() bool { return c.paces > 1 && 2*c.queued > c.paces }

// overflows reports whether the queue that most have met is full: all together lose much, and more than a quarter of them lose. One liar, or one bad
// path, makes the mean of a few as large.
func (c Crowd) overflows() bool {
	return c.queues() && c.losing > max(1, c.paces/4) && c.lost > overflow*float64(c.paces)
}

// patience is for how long the others may slow down: theirs, too, may be queues of their own, on which they go on for ever.
const patience = 10 * time.Second

// undecided reports whether it is too early to tell who fills the queue that a pace has met for so long: most others meet one as well, and it is
// full, or the pace or most others may still slow down.
func (c Crowd) undecided(rate float64, lasted time.Duration) bool {
	return c.overflows() || c.queues() && lasted < patience && (rate > leastRate || 2*c.high > c.paces)
}
