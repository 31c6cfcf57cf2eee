// Package clock estimates the clock of a peer from questions and answers, and bounds its own error. It is pure.
//
// A question that left at a and an answer that came at d, on our clock, while the peer's said b when the question came and c when the
// answer left, bound what the peer's clock is ahead, whatever the path is like: it is at most b−a, as if the question had taken no time,
// and at least c−d, as if the answer had taken none. The bounds of many exchanges are intersected, so that the quickest question
// and the quickest answer count, be they of different exchanges, and asymmetry of the path lies within the bound. NTP's filter
// takes the exchange with the least round trip instead, for which both ways have to be quick at once.
package clock

import "time"

const (
	// drift is what bounds widen by as they grow old, as 1/drift: 500 ppm is the most that a kernel slews a clock by (adjtime); quartz
	// is off by 100 ppm at most.
	drift = 2000
	// memory is how long exchanges of one period are gathered; they are forgotten at the end of the next period. A step of the peer's
	// clock by less than a round trip contradicts nothing, and is found only once the exchanges before it are forgotten.
	memory = 8 * time.Second
	// convincing is how many exchanges in a row must agree, each with the next, and contradict what was believed for that to be given up:
	// one may be a mistake, and a lie costs three round trips.
	convincing = 3
	// settled is how many exchanges make an estimate that jitter does not move much any more.
	settled = 10
	// slack is how exactly times of arrival are known: 16 µs at either end, and what passes between a look at the clock and the
	// packet.
	slack = 50 * time.Microsecond

	// Farthest is the largest time of a peer's that is believed, either way: sums of it and of ours stay far from the ends of int64.
	// In nanoseconds since 1970 it is a time from 1823 to 2116.
	Farthest = 1 << 62
)

// Sample is one exchange.
type Sample struct {
	Asked, Answered time.Duration // when the question left and the answer came, on our clock
	Held            time.Duration // from the arrival of the question to the departure of the answer, on the peer's
	Peer            int64         // nanoseconds: what the peer's clock said when the answer left
}

// sound reports whether the sample may be believed: a peer that held the question for longer than we waited lies.
func (s Sample) sound() bool {
	trip := s.Answered - s.Asked
	return trip >= 0 && s.Held >= 0 && s.Held <= trip+trip/drift+slack && -Farthest <= s.Peer && s.Peer <= Farthest
}

// span returns what the sample says that the peer's clock is ahead.
func (s Sample) span() span {
	held := min(s.Held, s.Answered-s.Asked)
	return span{
		least: s.Peer - int64(s.Answered) - int64(slack),
		most:  s.Peer - int64(held) - int64(s.Asked) + int64(slack),
		at:    s.Answered,
	}
}

// Clock is what is known of a peer's clock. The zero Clock knows nothing.
type Clock struct {
	recent, older  span          // of the running period of memory and of the one before
	began          time.Duration // of the running period
	contradicting  span          // the newest span that contradicts both
	contradictions int           // in a row, each of which agrees with the one before
	samples        int
	steps          uint64   // how often contradictions won
	told           struct { // the last answer of At: later ones are not below it
		ok   bool
		at   time.Duration
		peer int64
	}
}

// Add takes a sample, and reports whether it was sound. What was not is forgotten.
func (c *Clock) Add(s Sample) bool {
	if !s.sound() {
		return false
	}
	c.samples++
	fresh := s.span()
	switch {
	case !c.recent.known():
		c.recent, c.began = fresh, s.Answered
	case c.believed(s.Answered).meets(fresh):
		c.contradictions = 0
		c.learn(fresh)
	default:
		c.doubt(fresh)
	}
	return true
}

// learn narrows what is believed by a span that agrees with it.
func (c *Clock) learn(fresh span) {
	if fresh.at-c.began >= memory {
		c.older, c.recent, c.began = c.recent, fresh, fresh.at
		return
	}
	c.recent = c.recent.grown(fresh.at).cut(fresh)
}

// doubt counts a span that contradicts what is believed; the third in a row is believed instead.
func (c *Clock) doubt(fresh span) {
	if !c.contradicting.grown(fresh.at).meets(fresh) {
		c.contradictions = 0
	}
	c.contradicting = fresh // the newest alone: spans of a clock that runs too fast or too slow have little in common
	if c.contradictions++; c.contradictions == convincing {
		c.recent, c.older, c.began, c.contradictions = c.contradicting, span{}, fresh.at, 0
		c.told.ok = false
		c.steps++
	}
}

// believed returns what the peer's clock is ahead at a time.
func (c *Clock) believed(at time.Duration) span {
	recent := c.recent.grown(at)
	if older := c.older.grown(at); c.older.known() && older.meets(recent) {
		return recent.cut(older)
	}
	return recent
}

// At returns what the peer's clock says when ours says at, in nanoseconds, and how far off that may be; false before the first
// sample. As at grows the answer never falls, but where [Clock.Steps] rises.
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
		c.told.ok, c.told.at, c.told.peer = true, at, peer
	}
	return peer, bound, true
}

// Settled reports that exchanges may be rare: there were enough, and none contradicts the others.
func (c *Clock) Settled() bool { return c.samples >= settled && c.contradictions == 0 }

// Steps returns how often what was believed was given up because the peer's clock was set, or ours stood still.
func (c *Clock) Steps() uint64 { return c.steps }

// span is by how much a clock may be ahead of ours, in nanoseconds; the zero span says nothing.
type span struct {
	least, most int64
	at          time.Duration
}

func (s span) known() bool { return s.most > s.least }

// grown returns what the span says later.
func (s span) grown(at time.Duration) span {
	by := int64(max(0, at-s.at) / drift)
	return span{s.least - by, s.most + by, max(at, s.at)}
}

func (s span) meets(other span) bool { return s.least <= other.most && other.least <= s.most }

// cut returns what both say; its ends are a slack apart at least, so that it is never empty.
func (s span) cut(other span) span {
	cut := span{max(s.least, other.least), min(s.most, other.most), max(s.at, other.at)}
	if short := int64(slack) - (cut.most - cut.least); short > 0 {
		cut.least, cut.most = cut.least-short/2-1, cut.most+short/2+1
	}
	return cut
}

func (s span) middle() int64 { return s.least + (s.most-s.least)/2 }
