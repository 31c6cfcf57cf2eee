// Package clock estimates a peer's clock from questions and answers and bounds the error of
// the estimate. It uses no clock, goroutine or lock.
//
// Our clock reads a when a question is sent and d when its answer arrives. The peer's clock
// reads b when the question arrives and c when the answer is sent. Whatever the path, the
// peer's clock is ahead of ours by at most b−a, which is exact if the question took no time.
// It is ahead by at least c−d, which is exact if the answer took no time.
//
// Clock intersects the bounds of many exchanges. The quickest question and the quickest
// answer decide, even if they belong to different exchanges. The bound also covers a path
// that is slower in one direction. NTP's filter instead selects the exchange with the
// smallest round trip, in which both directions must be quick at once.
package clock

import "time"

const (
	// drift says how fast bounds age: they widen by 1/drift of their age. 500 ppm is the
	// fastest a kernel slews a clock (adjtime). Quartz is off by at most 100 ppm.
	drift = 2000
	// memory is the length of a period in which exchanges are collected. They are dropped at
	// the end of the next period. If the peer's clock steps by less than a round trip, no
	// bound is contradicted. Such a step shows only once the older exchanges have been
	// dropped.
	memory = 8 * time.Second
	// convincing is the number of contradicting exchanges in a row that replace the estimate.
	// Each must agree with the previous one. A single contradiction may be a mistake. A peer
	// that lies needs this many round trips.
	convincing = 3
	// settled is the number of exchanges after which jitter hardly moves the estimate.
	settled = 10
	// slack is the error of an arrival time: 16 µs at either end, and the time from reading
	// the clock to sending the packet.
	slack = 50 * time.Microsecond

	// Farthest limits the peer's times that are accepted, in either direction. It keeps sums
	// of these times and our own from overflowing an int64. In nanoseconds since 1970, they
	// reach from 1823 to 2116.
	Farthest = 1 << 62
)

// Sample is one exchange: our question and the peer's answer.
type Sample struct {
	Asked, Answered time.Duration // our clock when the question was sent and when the answer arrived
	Held            time.Duration // time between the question's arrival and the answer's sending, on the peer's clock
	Peer            int64         // the peer's clock when the answer was sent, in nanoseconds
}

// sound reports whether the sample can be true. It cannot if the answer arrived before the
// question was sent, if the peer held the question for a negative time or longer than we
// waited, or if the peer's time is beyond Farthest.
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
	recent         span          // from the current period of memory
	older          span          // from the previous period
	began          time.Duration // when the current period began, on our clock
	contradicting  span          // the newest sample that contradicted recent and older
	contradictions int           // contradictions in a row, each in agreement with the previous one
	samples        int
	steps          uint64   // number of times doubt replaced the estimate
	told           struct { // the last result of At; later results don't fall below it
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

// learn narrows the estimate by a span that agrees with it.
func (c *Clock) learn(fresh span) {
	if fresh.at-c.began >= memory {
		c.older = c.recent
		c.recent = fresh
		c.began = fresh.at
		return
	}
	c.recent = c.recent.grown(fresh.at).cut(fresh)
}

// doubt counts a span that contradicts the estimate. After convincing of them in a
// row, each in agreement with the previous one, the last span replaces the estimate.
func (c *Clock) doubt(fresh span) {
	if !c.contradicting.grown(fresh.at).meets(fresh) {
		c.contradictions = 0
	}
	// Keep fresh itself, not the intersection with the previous span. The spans of a clock that
	// runs too fast or too slow hardly overlap.
	c.contradicting = fresh
	c.contradictions++
	if c.contradictions == convincing {
		c.restart(fresh)
	}
}

// restart replaces the estimate by a span because a clock has stepped. Results of At may then
// fall once.
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

// At returns the reading of the peer's clock, in nanoseconds, when our clock reads at. bound
// limits the error of peer. ok is false before the first sample.
//
// While at grows, peer never falls unless [Clock.Steps] has grown. To ensure this, At records
// its result, so it is not a mere getter.
func (c *Clock) At(at time.Duration) (peer int64, bound time.Duration, ok bool) {
	if !c.recent.known() {
		return 0, 0, false
	}
	ahead := c.believed(at)
	peer = ahead.middle() + int64(at)
	bound = time.Duration(ahead.most-ahead.least+1) / 2
	if c.told.ok && at >= c.told.at && peer < c.told.peer {
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

// Settled reports whether exchanges may become rare: there were enough of them, and the
// latest agreed with the estimate.
func (c *Clock) Settled() bool { return c.samples >= settled && c.contradictions == 0 }

// Steps returns the number of times the estimate was replaced because the peer's clock was
// set or ours stood still.
func (c *Clock) Steps() uint64 { return c.steps }

// span bounds how far the peer's clock is ahead of ours, in nanoseconds, as measured when
// ours read at. The zero span bounds nothing.
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

// cut returns the intersection of two spans. It widens the result to at least slack, so the
// result is never empty.
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
