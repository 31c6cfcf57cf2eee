package sealed

import "time"

const (
	// samples is how many seconds of the round trips of two competitors are compared, and leastSamples how many at least.
	samples, leastSamples = 6, 4
	// leastMove is by how much round trips must move at least to show whether they move together, and sameMove the part of that by which they may
	// differ then.
	leastMove, sameMove = 2 * time.Millisecond, 0.4
)

// competitor is what a session knows of its queue. Those of one owner that compete share a queue if their round trips move together for some seconds:
// those over the links of two homes do not. By how much they differ tells nothing, for so do the ways to the queue.
type competitor struct {
	siblings *Siblings // nil = the session has none
	in       bool      // this is among siblings.competing
	now      second    // which has not ended
	newest   int64     // number of the second of the newest of trips
	oldest   int64
	trips    [samples]time.Duration // means of a second
	together int                    // how many compete for one queue, this one included; 0 = unknown
}

// second is the sum of the round trips in a second.
type second struct {
	number int64 // since the siblings' epoch
	sum    time.Duration
	count  int
}

// note says whether the session lately seemed to have a competitor, and how long its newest round trip was.
func (c *competitor) note(competes bool, now time.Time, trip time.Duration) {
	if c.siblings == nil {
		return
	}
	number := max(int64(now.Sub(c.siblings.since(now))/time.Second), 0) // an owner's clock may run back
	if competes == c.in && number == c.now.number {
		c.now.sum, c.now.count = c.now.sum+trip, c.now.count+1
		return
	}
	c.siblings.mu.Lock()
	defer c.siblings.mu.Unlock()
	c.join(competes)
	if number != c.now.number {
		c.sample(number)
		c.now = second{number, trip, 1}
	}
	c.together = c.siblings.together(c)
}

// leave says that the session has ended, or has nothing to send.
func (c *competitor) leave() {
	if c.in {
		c.siblings.mu.Lock()
		defer c.siblings.mu.Unlock()
		c.join(false)
		c.together = 0
	}
}

// join says whether the session is among those that compete. The caller holds the siblings' mu.
func (c *competitor) join(competes bool) {
	switch c.in = competes; {
	case !competes:
		delete(c.siblings.competing, c)
	case c.siblings.competing == nil:
		c.siblings.competing = map[*competitor]struct{}{c: {}}
	default:
		c.siblings.competing[c] = struct{}{}
	}
}

// sample keeps the mean of the second that has ended; next is the one that begins. Behind a gap all begins anew,
// without the second that has begun in its midst.
func (c *competitor) sample(next int64) {
	switch ended := c.now.number; {
	case next != ended+1:
		c.newest, c.oldest = 0, 1
	case c.newest == 0 || c.newest+1 != ended:
		c.newest, c.oldest = ended, ended+1
	default:
		c.newest, c.oldest = ended, max(c.oldest, ended-samples+1)
		c.trips[ended%samples] = c.now.sum / time.Duration(c.now.count)
	}
}

// movesWith reports whether the round trips of both have moved together.
func (c *competitor) movesWith(other *competitor) bool {
	from, until := max(c.oldest, other.oldest), min(c.newest, other.newest)
	if until-from+1 < leastSamples {
		return false
	}
	var mine, theirs, apart extent
	for at := from; at <= until; at++ {
		a, b := c.trips[at%samples], other.trips[at%samples]
		mine.add(a)
		theirs.add(b)
		apart.add(a - b)
	}
	move := max(mine.width(), theirs.width())
	return move >= leastMove && float64(apart.width()) <= sameMove*float64(move)
}

// extent is the least and the greatest of some durations.
type extent struct {
	least, most time.Duration
	some        bool
}

func (e *extent) add(d time.Duration) {
	if !e.some {
		e.least, e.most, e.some = d, d, true
	}
	e.least, e.most = min(e.least, d), max(e.most, d)
}

func (e *extent) width() time.Duration { return e.most - e.least }
