package sealed

import (
	"encoding/binary"
	"time"
)

const (
	// samples is how many seconds of the round trips of two competitors are compared, and leastSamples how many at least.
	samples, leastSamples = 6, 4
	// leastMove is by how much round trips must move at least to show whether they move together, and sameMove the part of that by which they may
	// differ then.
	leastMove, sameMove = 2 * time.Millisecond, 0.4
	// sayEvery is how often an end with bulk in flight says whether it competes, and how long its round trips were: in a packet that has room, or else
	// in one of its own after twice that time. maxCompetes is the most bytes that it takes.
	sayEvery, maxCompetes = 100 * time.Millisecond, 2 + binary.MaxVarintLen32
	// sayAfter is how long bulk has been in flight when an end says so for the first time: competitors need seconds to find each other, and what is over
	// by then has none.
	sayAfter = time.Second
	// toldLasts is how long what the peer has said or told counts. Each packet may be lost.
	toldLasts = 2 * time.Second
)

// competitor is what a session knows of its queue. Those of one owner that compete share a queue if their round trips move together for some seconds:
// those over the links of two homes do not. By how much they differ tells nothing, for so do the ways to the queue.
type competitor struct {
	siblings *Siblings    // nil = the session has none
	group    *competitors // those of the siblings that it belongs to when it competes
	in       bool         // this is among them
	now      second       // which has not ended
	newest   int64        // number of the second of the newest of trips
	oldest   int64
	trips    [samples]time.Duration // means of a second
	together int                    // how many compete for one queue, this one included; 0 = unknown
}

// second is the round trips of a second.
type second struct {
	number int64 // since the siblings' epoch
	mean
}

// mean is that of some round trips.
type mean struct {
	sum   time.Duration
	count int
}

func (m *mean) add(trip time.Duration) { m.sum, m.count = m.sum+trip, m.count+1 }

func (m *mean) value() time.Duration { return m.sum / time.Duration(max(m.count, 1)) }

// note says whether the session lately seemed to have a competitor, and how long its newest round trip was.
func (c *competitor) note(competes bool, now time.Time, trip time.Duration) {
	if c.siblings == nil {
		return
	}
	number := max(int64(now.Sub(c.siblings.since(now))/time.Second), 0) // an owner's clock may run back
	if competes == c.in && number == c.now.number {
		c.now.add(trip)
		return
	}
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	c.join(competes)
	if number != c.now.number {
		c.sample(number)
		c.now = second{number, mean{trip, 1}}
		if c.together = 0; competes { // who does not is told nothing, and costs no look at all others
			c.together = c.group.together(c)
		}
	}
}

// leave says that the session has ended, or has nothing to send.
func (c *competitor) leave() {
	if c.in {
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		c.join(false)
		c.together = 0
	}
}

// join says whether the session is among those that compete. The caller holds their mu.
func (c *competitor) join(competes bool) {
	switch c.in = competes; {
	case !competes:
		delete(c.group.all, c)
	case c.group.all == nil:
		c.group.all = map[*competitor]struct{}{c: {}}
	default:
		c.group.all[c] = struct{}{}
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
		c.trips[ended%samples] = c.now.value()
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

// competing is what the ends tell each other of competitors. Programs that send to the same peer over one link do not know of each other, but the
// peer can compare what they say, and tells them. The times of their common Dips then count by its clock, which they all know by its feedback.
type competing struct {
	begun    time.Duration // since when bulk has been in flight
	said     time.Duration // when this end last said whether it competes
	trips    mean          // round trips since then
	peer     competitor    // the peer, if it says that it does
	heard    time.Duration // when the peer last said whether it does
	together int           // how many compete for one queue, as the peer has told, this end included
	told     time.Duration // when it did; 0 = never
	epoch    time.Time     // when its clock was zero, by ours
}

// idle notes that no bulk is in flight.
func (c *competing) idle(t time.Duration) { c.begun, c.trips = t, mean{} }

// due reports whether this end has had bulk for some time, and has not said after a while whether it competes.
func (c *competing) due(t, after time.Duration) bool {
	return c.trips.count > 0 && t-c.begun >= sayAfter && t-c.said >= after
}

// say says whether this end competes.
func (c *competing) say(t time.Duration, b []byte, competes bool) []byte {
	trip := c.trips.value()
	c.said, c.trips = t, mean{}
	b = append(b, frameCompetes, 0)
	if competes {
		b[len(b)-1] = 1
	}
	return binary.AppendUvarint(b, uint64(min(trip/clockUnit, 1<<32-1)))
}

// hear notes whether the peer competes, and how long its round trips were.
func (c *competing) hear(t time.Duration, competes bool, now time.Time, trip time.Duration) {
	c.heard = t
	c.peer.note(competes, now, trip)
}

// tell notes how many the peer says to compete together. Its zero is noted once: if that moved with each delay on the way back, two Dips might
// follow each other.
func (c *competing) tell(t time.Duration, together int, zero time.Time) {
	if !c.counts(t) {
		c.epoch = zero
	}
	c.together, c.told = together, t
}

// counts reports whether the peer has told lately that several compete for one queue.
func (c *competing) counts(t time.Duration) bool { return c.told > 0 && t-c.told < toldLasts }

// lapse forgets a peer that has said nothing for long.
func (c *competing) lapse(t time.Duration) {
	if t-c.heard > toldLasts {
		c.peer.leave()
	}
}
