package state

import "time"

// overflow is the mean packet loss that shows that the queue most connections meet is full. A
// single TCP flow that fills a queue loses less.
const overflow = 0.1

// A Crowd sums up the paces of a server's connections.
//
// If most of them met a queue within calmTime, the queue may be on a path that they share, such as
// the server's uplink, and they may have caused it. The zero Crowd is that of a server with one
// connection.
type Crowd struct {
	paces    int     // paces in use
	losing   int     // paces in use that lose at least half of overflow
	queued   int     // paces in use that met a queue
	aboveMin int     // paces counted in queued that are above minRate
	lost     float64 // sum of the packet loss of the paces in use
}

// Add adds a pace. now is the time of its last Look or slightly later.
func (c *Crowd) Add(p *Pace, now time.Duration) {
	if now-p.lastLook > idleTime {
		return
	}
	c.paces++
	c.lost += p.lost
	if p.lost >= overflow/2 {
		c.losing++
	}
	if p.lastQueue == 0 {
		return
	}
	c.queued++
	if p.rate > minRate {
		c.aboveMin++
	}
}

// mostQueue reports whether most of the paces met a queue.
func (c Crowd) mostQueue() bool { return c.paces > 1 && 2*c.queued > c.paces }

// overflows reports whether the queue that most paces met is full: their mean loss is above
// overflow and more than a quarter of them lose packets. The quarter matters with few
// connections, where a single liar or a single bad path makes the mean as large.
//
// lost is the packet loss of the calling pace. If it loses next to nothing, the full queue isn't on
// its path, whatever the others report.
func (c Crowd) overflows(lost float64) bool {
	return lost >= overflow/4 && c.mostQueue() && c.losing > max(1, c.paces/4) && c.lost > overflow*float64(c.paces)
}

// patience limits how long a pace waits for the others to slow down, because if their queues have
// another cause, they never will.
const patience = 10 * time.Second

// undecided reports whether it is too early to say who fills the queue that p met, which has lasted
// that long. It is, provided that most others met a queue as well, while that queue is full, or
// while p or most others can still slow down.
func (c Crowd) undecided(p *Pace, lasted time.Duration) bool {
	return c.overflows(p.lost) || c.mostQueue() && lasted < patience && (p.rate > minRate || 2*c.aboveMin > c.paces)
}
