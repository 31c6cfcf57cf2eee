package state

import "time"

// overflow is the share of all connections' packets whose loss shows that the queue
// that most of them meet is full. A single TCP flow that fills a queue loses less.
const overflow = 0.1

// A Crowd counts the paces of a server's connections. If most of them have met a queue
// within calm, it may be on a path that they share, such as the server's uplink, and
// be of their own making. The zero Crowd is that of a server with one connection.
type Crowd struct {
	paces  int     // paces in use
	losing int     // paces in use that lose at least half of overflow
	queued int     // paces in use that have met a queue
	high   int     // of queued, those above the least rate
	lost   float64 // sum of the shares of packets lost, over the paces in use
}

// Add adds a pace; now is the time of its last Look, or a little later.
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

// overflows reports whether the queue that most have met is full: their mean
// loss is above overflow, and more than a quarter of them lose packets. With a
// few connections a single liar, or a single bad path, makes the mean as large.
func (c Crowd) overflows() bool {
	return c.queues() && c.losing > max(1, c.paces/4) && c.lost > overflow*float64(c.paces)
}

// patience is for how long the others may slow down: their queues, too, may be
// caused by others, in which case they would continue forever.
const patience = 10 * time.Second

// undecided reports whether it is too early to say who fills the queue that a
// pace has met for the time lasted: most others have met one as well, and it is
// full, or the pace or most others may still slow down.
func (c Crowd) undecided(rate float64, lasted time.Duration) bool {
	return c.overflows() || c.queues() && lasted < patience && (rate > leastRate || 2*c.high > c.paces)
}
