package pace

import (
	"cmp"
	"time"
)

// An instant is a point in time, as a duration since the epoch of the sender's clock unless a
// comment says otherwise. It takes only 8 bytes in the record of a packet, while a time.Time would
// take 24.
type instant = time.Duration

// furthest bounds instants, so that we can subtract a peer's times without overflow.
const furthest instant = 1 << 60

// bounded returns i limited to furthest in either direction.
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
	// minLag is how wrong a peer's clock must be for us to correct it. If the clock is right, the
	// minimum delays of two windows differ by less than this.
	minLag = 8 * time.Millisecond

	// A window has at least windowPackets packets, and lasts for at least windowTime.
	windowTime, windowPackets = time.Second / 2, 32

	// earlierLife is how long we use a window as the reference for later ones. The clocks of two
	// machines usually drift apart by less than 133 ppm, at which they differ by minLag after a
	// minute.
	earlierLife = time.Minute

	// maxHidden limits the correction for the part of a lag that our own queue may hide; see drift.
	maxHidden = 4

	// maxSpeed limits the factor by which we correct a clock. A peer that needs a larger factor is
	// lying.
	maxSpeed = 16
)

// A peerClock turns the times that a receiver reports into instants of a clock that runs as fast as
// ours. It corrects the receiver's clock if that runs at the wrong speed, which happens while the
// peer's machine itself adjusts it. The NTP client chrony, for example, adjusts a clock by up to a
// twelfth of the time that passes (maxslewrate).
//
// If the clock is slow by 1 %, the one-way delay seems to shrink by 10 ms each second, so we
// overlook a queue. Without the correction, we would keep a standing queue of 60 ms at 10 Mbit/s,
// and leave another transfer a twentieth of the link. If the clock is fast, on the other hand,
// there always seems to be a queue, and at 1 % loss we would use only a quarter of the rate.
type peerClock struct {
	clock          // turns the receiver's times as reported into raw instants
	window    ways // the newest window, which isn't complete yet
	reference ways // an earlier window, to compare the newest one with

	// The latest correction.
	raw   instant       // raw instant at which it was made
	fixed instant       // what that instant was corrected to
	speed float64       // factor for the raw time since then; 0 if we never corrected the clock
	lag   time.Duration // how far the clock had fallen behind; negative if it was fast
}

// ways holds the minimum delays in both directions and the minimum round trip within a window of
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
// amount. A fast clock does the opposite. A queue does neither, because it can't make either way
// shorter.
func (w *ways) lag(earlier *ways) time.Duration {
	there, back := earlier.there.value-w.there.value, w.back.value-earlier.back.value
	if there > 0 {
		return max(min(there, back), 0)
	}
	return min(max(there, back), 0)
}

// drift returns the lag of a clock that was found wrong in the same direction before.
//
// It relies on the way back, because our own queue hides part of the lag on the way there. But an
// upload may cause a queue on the way back, so it returns no more than maxHidden times the lag that
// both ways show.
func (w *ways) drift(earlier *ways) time.Duration {
	lag := w.lag(earlier)
	back := w.back.value - earlier.back.value
	if back.Abs()/maxHidden > lag.Abs() {
		return maxHidden * lag
	}
	return back
}

// arrival returns when a packet arrived that was acked at t and sent at the given instant. told is
// the arrival time by the receiver's clock.
//
// If it corrects the clock, all delays measured since the reference are wrong. floor is then the
// minimum delay of the reference on the way there, which still holds.
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
	since := min(max(float64(raw-p.raw)*p.speed, float64(-furthest)), float64(furthest))
	return bounded(p.fixed + instant(since))
}

// compare ends a window, and corrects the clock if it has gone wrong since the reference. In
// that case it returns the reference's minimum delay on the way there.
//
// The reference is the window with the shortest round trips, but a newer one replaces it once it
// is older than earlierLife.
func (p *peerClock) compare(raw instant) (floor minDuration) {
	w, r := p.window, p.reference
	p.window = ways{}
	if r.packets > 0 && w.lag(&r).Abs() > minLag {
		p.correct(raw, &w, &r)
		p.reference = ways{}
		return r.there
	}
	if r.packets == 0 || w.trip.value < r.trip.value-minLag/4 || w.began-r.began > earlierLife {
		p.reference = w
	}
	return minDuration{}
}

// correct corrects the clock by its lag in window w since window r.
//
// The clock may only have jumped, so its speed isn't changed until it goes wrong in the same
// direction for a second time.
func (p *peerClock) correct(raw instant, w, r *ways) {
	lag := w.lag(r)
	again := p.lag != 0 && lag > 0 == (p.lag > 0)
	if again {
		lag = w.drift(r)
	}
	p.fixed = bounded(p.corrected(raw) + lag)
	p.raw = raw
	p.speed = cmp.Or(p.speed, 1)
	if again {
		p.speed /= max(1-lag.Seconds()/(w.began-r.began).Seconds(), 1.0/maxSpeed)
		p.speed = min(max(p.speed, 1.0/maxSpeed), maxSpeed)
	}
	p.lag = lag
}

// forgetPath forgets the delays of the old path after a path change.
func (p *peerClock) forgetPath() { p.window, p.reference = ways{}, ways{} }
