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
	// driftDivisor says how fast bounds go stale: they widen by 1/driftDivisor of their age, or 500
	// ppm. That is the fastest that a kernel slews a clock (adjtime), while quartz is off by at
	// most 100 ppm.
	driftDivisor = 2000
	// period is how long we collect exchanges before we start over. A collection is dropped at the
	// end of the following period. This is for a peer's clock that steps by less than a round trip:
	// since that contradicts no bound, we notice the step only once the older exchanges are gone.
	period = 8 * time.Second
	// convincingRun is the number of exchanges in a row that must contradict the estimate before we
	// replace it, each in agreement with the one before. A single one may be a mistake, and a peer
	// that lies needs this many round trips.
	convincingRun = 3
	// settledSamples is the number of exchanges after which jitter hardly moves the estimate.
	settledSamples = 10
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

// isPlausible reports whether the sample can be true. It can't if the answer arrived before the
// question was sent, if the peer held the question for a negative time or for longer than we
// waited, or if the peer's time is beyond Farthest.
func (s Sample) isPlausible() bool {
	trip := s.Answered - s.Asked
	return trip >= 0 && s.Held >= 0 && s.Held <= trip+trip/driftDivisor+slack &&
		-Farthest <= s.Peer && s.Peer <= Farthest
}

// span returns the sample's bounds on how far the peer's clock is ahead of ours.
func (s Sample) span() span {
	held := min(s.Held, s.Answered-s.Asked)
	return span{
		low:  s.Peer - int64(s.Answered) - int64(slack),
		high: s.Peer - int64(held) - int64(s.Asked) + int64(slack),
		at:   s.Answered,
	}
}

// A Clock estimates a peer's clock. The zero Clock has no estimate. It is not safe for
// concurrent use.
type Clock struct {
	// The estimate.
	recent      span          // bounds from the current period
	older       span          // bounds from the previous period
	periodStart time.Duration // when the current period began, on our clock
	samples     int

	// Samples that contradict it.
	contradiction  span   // the newest of them
	contradictions int    // how many in a row, each in agreement with the one before
	steps          uint64 // how often they have replaced the estimate

	// The last result of At, below which later ones must not fall.
	lastResult struct {
		ok   bool
		at   time.Duration
		peer int64
	}
}

// Add adds a sample. If the sample can't be true, Add ignores it and returns false.
func (c *Clock) Add(s Sample) bool {
	if !s.isPlausible() {
		return false
	}
	c.samples++
	fresh := s.span()
	switch {
	case !c.recent.isKnown():
		c.recent = fresh
		c.periodStart = s.Answered
	case c.estimate(s.Answered).overlaps(fresh):
		c.contradictions = 0
		c.learn(fresh)
	default:
		c.doubt(fresh)
	}
	return true
}

// learn narrows the estimate to its intersection with a span that agrees with it. If the period is
// over, the span begins the next one.
func (c *Clock) learn(fresh span) {
	if fresh.at-c.periodStart >= period {
		c.older = c.recent
		c.recent = fresh
		c.periodStart = fresh.at
		return
	}
	c.recent = c.recent.widened(fresh.at).intersect(fresh)
}

// doubt counts a span that contradicts the estimate. If there are convincingRun of them in a row,
// each in agreement with the one before, the last one replaces the estimate.
func (c *Clock) doubt(fresh span) {
	if !c.contradiction.widened(fresh.at).overlaps(fresh) {
		c.contradictions = 0
	}
	// Keep all of fresh rather than its intersection with the previous span, because the spans of a
	// clock that runs too fast or too slow hardly overlap.
	c.contradiction = fresh
	c.contradictions++
	if c.contradictions == convincingRun {
		c.restart(fresh)
	}
}

// restart replaces the estimate with a span, because one of the clocks stepped. The next result of
// At may then be lower than the last one.
func (c *Clock) restart(fresh span) {
	c.recent = fresh
	c.older = span{}
	c.periodStart = fresh.at
	c.contradictions = 0
	c.lastResult.ok = false
	c.steps++
}

// estimate returns the bounds on how far the peer's clock is ahead of ours when
// ours reads at.
func (c *Clock) estimate(at time.Duration) span {
	recent := c.recent.widened(at)
	if older := c.older.widened(at); c.older.isKnown() && older.overlaps(recent) {
		return recent.intersect(older)
	}
	return recent
}

// At returns what the peer's clock reads when ours reads at, in nanoseconds. bound limits the error
// of peer. ok is false before the first sample.
//
// While at grows, peer never falls unless [Clock.Steps] has grown. To ensure this, At remembers its
// last result, so it needs the same protection as a write.
func (c *Clock) At(at time.Duration) (peer int64, bound time.Duration, ok bool) {
	if !c.recent.isKnown() {
		return 0, 0, false
	}
	ahead := c.estimate(at)
	peer = ahead.middle() + int64(at)
	bound = time.Duration(ahead.high-ahead.low+1) / 2
	if c.lastResult.ok && at >= c.lastResult.at && peer < c.lastResult.peer {
		// Stand still until the estimate has caught up.
		bound += time.Duration(c.lastResult.peer - peer)
		peer = c.lastResult.peer
	}
	if !c.lastResult.ok || at >= c.lastResult.at {
		c.lastResult.ok = true
		c.lastResult.at = at
		c.lastResult.peer = peer
	}
	return peer, bound, true
}

// Settled reports whether exchanges may become rare, because there have been enough of them and the
// latest agreed with the estimate.
func (c *Clock) Settled() bool { return c.samples >= settledSamples && c.contradictions == 0 }

// Steps returns how often the estimate was replaced, because the peer's clock was set or ours stood
// still.
func (c *Clock) Steps() uint64 { return c.steps }

// A span bounds how far the peer's clock is ahead of ours, in nanoseconds, as measured when ours
// read at. The zero span bounds nothing.
type span struct {
	low, high int64
	at        time.Duration
}

// isKnown reports whether the span bounds anything.
func (s span) isKnown() bool { return s.high > s.low }

// widened returns the span widened by the drift until our clock reads at.
func (s span) widened(at time.Duration) span {
	by := int64(max(0, at-s.at) / driftDivisor)
	return span{s.low - by, s.high + by, max(at, s.at)}
}

// overlaps reports whether two spans have a value in common.
func (s span) overlaps(other span) bool { return s.low <= other.high && other.low <= s.high }

// intersect returns the intersection of two spans, which it widens to at least slack, so that there
// always is one.
func (s span) intersect(other span) span {
	cut := span{max(s.low, other.low), min(s.high, other.high), max(s.at, other.at)}
	if short := int64(slack) - (cut.high - cut.low); short > 0 {
		cut.low -= short/2 + 1
		cut.high += short/2 + 1
	}
	return cut
}

// middle returns the middle of the span.
func (s span) middle() int64 { return s.low + (s.high-s.low)/2 }
