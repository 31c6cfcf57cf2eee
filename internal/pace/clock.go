package pace

import (
	"cmp"
	"time"
)

// An instant is a time, as a duration since an epoch. It takes 8 bytes in a packet's
// record, where a time.Time takes 24.
type instant = time.Duration

// furthest bounds instants, so that differences between a peer's times do not overflow.
const furthest instant = 1 << 60

// bounded returns i, limited to ±furthest.
func bounded(i instant) instant { return min(max(i, -furthest), furthest) }

// A clock turns the times of one clock into instants. The first instant is 1, so 0 can
// mean never.
type clock struct{ epoch time.Time }

// at returns the instant of t. The first call sets the epoch.
func (c *clock) at(t time.Time) instant {
	if c.epoch.IsZero() {
		c.epoch = t.Add(-1)
	}
	return bounded(t.Sub(c.epoch))
}

// time returns the time of an instant.
func (c *clock) time(i instant) time.Time { return c.epoch.Add(i) }

const (
	// minLag is the minimum error of a peer's clock that is corrected. With a clock that
	// is right, the minimum delays of two windows differ by less.
	minLag = 8 * time.Millisecond
	// A window lasts at least windowTime, and has at least windowPackets packets.
	windowTime, windowPackets = time.Second / 2, 32
	// earlierLife is the time for which a window is compared with later ones. In a minute
	// a clock that is off by 133 millionths goes wrong by minLag. The crystals of two
	// machines usually differ by less.
	earlierLife = time.Minute
	// maxHidden bounds the part of a lag that our own queue may hide; see drift.
	maxHidden = 4
	// maxSpeed bounds the factor by which a clock is corrected. A peer that reports more
	// lies.
	maxSpeed = 16
)

// A peerClock turns the receiver's times into instants of a clock that runs as fast as
// ours.
//
// A clock that its own machine is correcting is wrong by up to a twelfth of the time
// (chrony's maxslewrate).
//
// With a clock that is slow by a hundredth, the one-way delay seems to shrink by 10 ms
// each second, so no queue is seen. On 10 Mbit/s a queue of 60 ms stood, and somebody
// else's transfer got a twentieth of the link.
//
// With a clock that is fast, there always seems to be a queue. On a link with 1 % loss,
// the controller used only a quarter of the rate.
type peerClock struct {
	clock                   // turns the receiver's times as reported into raw instants
	speed     float64       // factor for raw time since set; 0 = never corrected
	set       instant       // raw instant of the last correction
	counts    instant       // corrected instant of set
	wrong     time.Duration // lag corrected then; negative = the clock was fast
	window    ways          // newest window, not yet complete
	reference ways          // earlier window, with which the newest one is compared
}

// ways holds the minimum delays in both directions, and the minimum round trip, in a
// window of time.
type ways struct {
	began             instant
	packets           int
	there, back, trip minDuration
}

// note adds a packet that was sent at sent, arrived at a and was acked at t.
func (w *ways) note(sent, a, t instant) {
	w.packets++
	if w.packets == 1 {
		w.began = t
	}
	w.there.note(a - sent)
	w.back.note(t - a)
	w.trip.note(t - sent)
}

// lag returns the time by which the peer's clock fell behind since an earlier window.
//
// If the clock falls behind, the way there seems shorter by the lag, and the way back
// longer. If the clock runs fast, both are reversed and the lag is negative. A queue does
// neither: it makes one direction longer, or both.
func (w *ways) lag(earlier *ways) time.Duration {
	there, back := earlier.there.value-w.there.value, w.back.value-earlier.back.value
	if there > 0 {
		return max(min(there, back), 0)
	}
	return min(max(there, back), 0)
}

// drift returns the lag of a clock that has gone wrong in the same direction before.
//
// It uses the lag that the way back shows, because on the way there our own queue hides a
// part of the lag. It returns at most maxHidden times the lag that both directions show.
// More is due to somebody's upload, which makes a queue on the way back.
func (w *ways) drift(earlier *ways) time.Duration {
	lag := w.lag(earlier)
	back := w.back.value - earlier.back.value
	if back.Abs()/maxHidden > lag.Abs() {
		return maxHidden * lag
	}
	return back
}

// arrival returns the arrival time of a packet that was sent at sent and acked at t. told
// is the arrival time by the receiver's clock.
//
// If this call corrected the clock, floor is the reference's minimum delay on the way
// there, because delays measured since the reference are wrong.
func (p *peerClock) arrival(t, sent instant, told time.Time) (a instant, floor minDuration) {
	raw := p.at(told)
	if p.window.packets >= windowPackets && t-p.window.began >= windowTime {
		floor = p.compare(raw)
	}
	a = p.corrected(raw)
	p.window.note(sent, a, t)
	return a, floor
}

// corrected returns the corrected instant of a raw one.
func (p *peerClock) corrected(raw instant) instant {
	if p.speed == 0 {
		return raw
	}
	since := min(max(float64(raw-p.set)*p.speed, float64(-furthest)), float64(furthest))
	return bounded(p.counts + instant(since))
}

// compare ends a window, and corrects the clock if it has gone wrong since the reference.
// If it corrects the clock, it returns the reference's minimum delay on the way there.
//
// The reference is the window with the shortest round trips, or the newest window if the
// reference is older than earlierLife.
//
// The clock's speed is corrected only when the clock goes wrong in the same direction
// again. The first time the clock may have jumped.
func (p *peerClock) compare(raw instant) (floor minDuration) {
	w, r := p.window, p.reference
	p.window = ways{}
	switch lag := w.lag(&r); {
	case r.packets > 0 && lag.Abs() > minLag:
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

// forgetPath forgets the delays of the old path, after the path has changed.
func (p *peerClock) forgetPath() { p.window, p.reference = ways{}, ways{} }
