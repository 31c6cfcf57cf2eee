// Package clock estimates a peer's clock from questions and answers and bounds the error of
// the estimate. It uses no clock, goroutine or lock.
//
// In one exchange, our clock reads a when the question is sent and d when its answer arrives. The
// peer's clock reads b when the question arrives and c when the answer is sent. Whatever the
// path, the peer's clock is ahead of ours by at most b−a, which is exact if the question took no
// time, and by at least c−d, which is exact if the answer took no time.
//
// Clock intersects the bounds of many exchanges, so that the quickest question and the quickest
// answer decide, even if they belong to different exchanges. The result also covers a path that
// is slower in one direction. NTP's filter, on the other hand, selects the exchange with the
// smallest round trip, in which both directions must be quick at once.
package clock

import "time"

const (
	// drift says how fast bounds go stale: they widen by 1/drift of their age. 500 ppm is the
	// fastest that a kernel slews a clock (adjtime). Quartz is off by at most 100 ppm.
	drift = 2000
	// memory is how long we collect exchanges before we begin afresh. The collection is dropped
	// at the end of the following period. This is for a peer's clock that steps by less than a
	// round trip: it contradicts no bound, so we notice the step only once the older exchanges
	// are gone.
	memory = 8 * time.Second
	// convincing is how many exchanges in a row must contradict the estimate until we replace
	// it, each in agreement with the one before. A single one may be a mistake, and a peer that
	// lies needs this many round trips.
	convincing = 3
	// settled is how many exchanges it takes until jitter hardly moves the estimate.
	settled = 10
	// slack is the error of an arrival time: 16 µs at either end, and the time from reading the
	// clock to sending the packet.
	slack = 50 * time.Microsecond

	// Farthest limits the peer's times that we accept, in either direction, so that sums of
	// these times and our own don't overflow an int64. In nanoseconds since 1970, they reach
	// from 1823 to 2116.
	Farthest = 1 << 62
)

// A Sample is one exchange: our question and the peer's answer.
type Sample struct {
	// Asked and Answered are what our clock read when the question was sent, and when the answer
	// arrived.
	Asked, Answered time.Duration
	// Held is how long the peer took from the question's arrival to sending the answer, by its
	// own clock.
	Held time.Duration
	// Peer is what the peer's clock read when it sent the answer, in nanoseconds.
	Peer int64
}

// sound reports whether the sample can be true. It cannot if the answer arrived before the question
// was sent, if the peer held the question for a negative time or for longer than we waited, or if
// the peer's time is beyond Farthest.
func (s Sample) sound() bool {
	trip := s.Answered - s.Asked
	return trip >= 0 && s.Held >= 0 && s.Held <= trip+trip/drift+slack &&
		-Farthest <= s.Peer && s.Peer <= Farthest
}

// span returns the sample's bounds on how far the peer's clock is ahead of ours.
func (s Sample) span() span {
	held := min(s.Held, s.Answered-s.Asked)
	return span{
		least: s.Peer - int64(s.Answered) - int64(slack),
		most:  s.Peer - int64(held) - int64(s.Asked) + int64(slack),
		at:    s.Answered,
	}
}

// A Clock estimates a peer's clock. The zero Clock has no estimate. It is not safe for
// concurrent use.
type Clock struct {
	// The estimate.
	recent  span          // bounds from the current period of memory
	older   span          // bounds from the previous period
	began   time.Duration // when the current period began, on our clock
	samples int

	// Samples that contradict it.
	contradicting  span   // the newest of them
	contradictions int    // how many in a row, each in agreement with the one before
	steps          uint64 // how often they have replaced the estimate

	// The last result of At, below which later ones must not fall.
	told struct {
		ok   bool
		at   time.Duration
		peer int64
	}
}

// Add adds a sample. If the sample cannot be true, Add ignores it and returns false.
func (c *Clock) Add(s Sample) bool {
	if !s.sound() {
		return false
	}
	c.samples++
	fresh := s.span()
	switch {
	case !c.recent.known():
		c.recent = fresh
		c.began = s.Answered
	case c.believed(s.Answered).meets(fresh):
		c.contradictions = 0
		c.learn(fresh)
	default:
		c.doubt(fresh)
	}
	return true
}

// learn narrows the estimate down to what a span leaves of it, with which it agrees. If the period
// is over, the span begins the next one.
func (c *Clock) learn(fresh span) {
	if fresh.at-c.began >= memory {
		c.older = c.recent
		c.recent = fresh
		c.began = fresh.at
		return
	}
	c.recent = c.recent.grown(fresh.at).cut(fresh)
}

// doubt counts a span that contradicts the estimate. If there are convincing of them in a row,
// each in agreement with the one before, the last one replaces the estimate.
func (c *Clock) doubt(fresh span) {
	if !c.contradicting.grown(fresh.at).meets(fresh) {
		c.contradictions = 0
	}
	// Keep all of fresh rather than its intersection with the span before. If a clock runs too
	// fast or too slow, its spans hardly overlap.
	c.contradicting = fresh
	c.contradictions++
	if c.contradictions == convincing {
		c.restart(fresh)
	}
}

// restart replaces the estimate with a span, because one of the clocks has stepped. This is when
// results of At may fall.
func (c *Clock) restart(fresh span) {
	c.recent = fresh
	c.older = span{}
	c.began = fresh.at
	c.contradictions = 0
	c.told.ok = false
	c.steps++
}

// believed returns the estimate's bounds on how far the peer's clock is ahead of ours when
// ours reads at.
func (c *Clock) believed(at time.Duration) span {
	recent := c.recent.grown(at)
	if older := c.older.grown(at); c.older.known() && older.meets(recent) {
		return recent.cut(older)
	}
	return recent
}

// At returns what the peer's clock reads when ours reads at, in nanoseconds. bound limits the error
// of peer. ok is false before the first sample.
//
// While at grows, peer never falls unless [Clock.Steps] has grown. To ensure this, At remembers its
// last result, so it is not a mere getter.
func (c *Clock) At(at time.Duration) (peer int64, bound time.Duration, ok bool) {
	if !c.recent.known() {
		return 0, 0, false
	}
	ahead := c.believed(at)
	peer = ahead.middle() + int64(at)
	bound = time.Duration(ahead.most-ahead.least+1) / 2
	if c.told.ok && at >= c.told.at && peer < c.told.peer {
		// Stand still until the estimate has caught up.
		bound += time.Duration(c.told.peer - peer)
		peer = c.told.peer
	}
	if !c.told.ok || at >= c.told.at {
		c.told.ok = true
		c.told.at = at
		c.told.peer = peer
	}
	return peer, bound, true
}

// Settled reports whether exchanges may become rare, because there have been enough of them and the
// latest agreed with the estimate.
func (c *Clock) Settled() bool { return c.samples >= settled && c.contradictions == 0 }

// Steps returns how often the estimate was replaced, because the peer's clock was set or ours stood
// still.
func (c *Clock) Steps() uint64 { return c.steps }

// A span bounds how far the peer's clock is ahead of ours, in nanoseconds, as measured when ours
// read at. The zero span bounds nothing.
type span struct {
	least, most int64
	at          time.Duration
}

// known reports whether the span bounds anything.
func (s span) known() bool { return s.most > s.least }

// grown returns the span widened by the drift until our clock reads at.
func (s span) grown(at time.Duration) span {
	by := int64(max(0, at-s.at) / drift)
	return span{s.least - by, s.most + by, max(at, s.at)}
}

// meets reports whether two spans have a value in common.
func (s span) meets(other span) bool { return s.least <= other.most && other.least <= s.most }

// cut returns the intersection of two spans, which it widens to at least slack, so that there
// always is one.
func (s span) cut(other span) span {
	cut := span{max(s.least, other.least), min(s.most, other.most), max(s.at, other.at)}
	if short := int64(slack) - (cut.most - cut.least); short > 0 {
		cut.least -= short/2 + 1
		cut.most += short/2 + 1
	}
	return cut
}

// middle returns the middle of the span.
func (s span) middle() int64 { return s.least + (s.most-s.least)/2 }
