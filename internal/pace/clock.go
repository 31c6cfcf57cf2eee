package pace

import (
	"cmp"
	"time"
)

// An instant is a point in time, as a duration since an epoch. In a packet's record it takes only 8
// bytes, whereas a time.Time would take 24.
type instant = time.Duration

// furthest bounds instants, so that we can subtract a peer's times without overflow.
const furthest instant = 1 << 60

// bounded returns i, but at most furthest in either direction.
func bounded(i instant) instant { return min(max(i, -furthest), furthest) }

// A clock turns times into instants. The first instant is 1, which leaves 0 free to mean never.
type clock struct{ epoch time.Time }

// at returns the instant of a time. The first call sets the epoch.
func (c *clock) at(t time.Time) instant {
	if c.epoch.IsZero() {
		c.epoch = t.Add(-1)
	}
	return bounded(t.Sub(c.epoch))
}

// time returns the time of an instant.
func (c *clock) time(i instant) time.Time { return c.epoch.Add(i) }

const (
	// minLag is by how much a peer's clock must be wrong for us to correct it. The minimum delays
	// of two windows differ by less than this if the clock is right.
	minLag = 8 * time.Millisecond

	// A window has at least windowPackets packets, and lasts for at least windowTime.
	windowTime, windowPackets = time.Second / 2, 32

	// earlierLife is for how long we compare a window with later ones. Two machines' crystals
	// usually differ by less than 133 millionths, which is what adds up to minLag in a minute.
	earlierLife = time.Minute

	// maxHidden limits what part of a lag our own queue may have hidden; see drift.
	maxHidden = 4

	// maxSpeed limits by which factor we correct a clock. A peer that needs more than that is
	// lying.
	maxSpeed = 16
)

// A peerClock turns the times that a receiver reports into instants of a clock that runs as fast as
// ours. It corrects a clock that runs at the wrong speed, which happens when the peer's machine is
// itself correcting it: chrony, for example, then lets it be wrong by up to a twelfth of the time
// (maxslewrate).
//
// If a clock is slow by a hundredth, the one-way delay seems to shrink by 10 ms each second, and
// we see no queue. We once had a standing queue of 60 ms on 10 Mbit/s because of this, and
// somebody else's transfer got a twentieth of the link. If it's fast, on the other hand, there
// always seems to be a queue. On a link with 1 % loss we then used only a quarter of the rate.
type peerClock struct {
	clock                   // turns the receiver's times as reported into raw instants
	speed     float64       // factor for raw time since set; 0 if we never corrected the clock
	set       instant       // raw instant of the latest correction
	counts    instant       // what set was corrected to
	wrong     time.Duration // by how much the clock had fallen behind then; negative if it was fast
	window    ways          // the newest window, which isn't complete yet
	reference ways          // an earlier window, to compare the newest one with
}

// ways has the minimum delays in both directions and the minimum round trip, all within a window of
// time.
type ways struct {
	began             instant
	packets           int
	there, back, trip minDuration
}

// note adds a packet that was sent, arrived and was acked at these instants.
func (w *ways) note(sent, a, t instant) {
	w.packets++
	if w.packets == 1 {
		w.began = t
	}
	w.there.note(a - sent)
	w.back.note(t - a)
	w.trip.note(t - sent)
}

// lag returns how far the peer's clock has fallen behind since an earlier window. It's negative
// if the clock is fast.
//
// A clock that falls behind makes the way there seem shorter and the way back longer, by the same
// amount. A fast clock does the opposite. A queue does neither, because it can only make one of the
// ways longer, or both.
func (w *ways) lag(earlier *ways) time.Duration {
	there, back := earlier.there.value-w.there.value, w.back.value-earlier.back.value
	if there > 0 {
		return max(min(there, back), 0)
	}
	return min(max(there, back), 0)
}

// drift returns the lag of a clock that has been found wrong in the same direction before.
//
// We trust the way back now, because on the way there our own queue hides part of the lag. But
// it might be somebody's upload that makes a queue on the way back, so we don't believe in more
// than maxHidden times what both ways show.
func (w *ways) drift(earlier *ways) time.Duration {
	lag := w.lag(earlier)
	back := w.back.value - earlier.back.value
	if back.Abs()/maxHidden > lag.Abs() {
		return maxHidden * lag
	}
	return back
}

// arrival returns when a packet arrived that was sent and acked at these instants. told is the
// arrival time by the receiver's clock.
//
// If this makes us correct the clock, any delays that we have measured since the reference are
// wrong. floor is the reference's minimum delay on the way there, which still holds.
func (p *peerClock) arrival(t, sent instant, told time.Time) (a instant, floor minDuration) {
	raw := p.at(told)
	if p.window.packets >= windowPackets && t-p.window.began >= windowTime {
		floor = p.compare(raw)
	}
	a = p.corrected(raw)
	p.window.note(sent, a, t)
	return a, floor
}

// corrected corrects a raw instant.
func (p *peerClock) corrected(raw instant) instant {
	if p.speed == 0 {
		return raw
	}
	since := min(max(float64(raw-p.set)*p.speed, float64(-furthest)), float64(furthest))
	return bounded(p.counts + instant(since))
}

// compare ends a window, and corrects the clock if it has gone wrong since the reference. In
// that case it returns the reference's minimum delay on the way there.
//
// The reference is the window with the shortest round trips, but we take a newer one once it is
// older than earlierLife.
func (p *peerClock) compare(raw instant) (floor minDuration) {
	w, r := p.window, p.reference
	p.window = ways{}
	switch lag := w.lag(&r); {
	case r.packets > 0 && lag.Abs() > minLag:
		// It may only have jumped. We don't touch its speed until it goes wrong in the same
		// direction again.
		again := p.wrong != 0 && lag > 0 == (p.wrong > 0)
		if again {
			lag = w.drift(&r)
		}
		p.counts = bounded(p.corrected(raw) + lag)
		p.set = raw
		p.speed = cmp.Or(p.speed, 1)
		if again {
			p.speed /= max(1-lag.Seconds()/(w.began-r.began).Seconds(), 1.0/maxSpeed)
			p.speed = min(max(p.speed, 1.0/maxSpeed), maxSpeed)
		}
		p.wrong = lag
		p.reference = ways{}
		return r.there
	case r.packets == 0 || w.trip.value < r.trip.value-minLag/4 || w.began-r.began > earlierLife:
		p.reference = w
	}
	return minDuration{}
}

// forgetPath forgets the old path's delays when the path has changed.
func (p *peerClock) forgetPath() { p.window, p.reference = ways{}, ways{} }
