package pace

import (
	"cmp"
	"time"
)

// An instant is a time, as a duration since an epoch. In a packet's record it
// takes 8 bytes instead of 24.
type instant = time.Duration

// furthest bounds instants, so that differences between a peer's times do not overflow.
const furthest instant = 1 << 60

// bounded returns i, limited to ±furthest.
func bounded(i instant) instant { return min(max(i, -furthest), furthest) }

// A clock turns times of one clock into instants. The first instant is 1, so 0 can mean never.
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
	// leastLag is by how much a peer's clock must be wrong before it is corrected.
	// With a clock that is right, the least delays of two windows differ by less.
	leastLag = 8 * time.Millisecond
	// A window lasts at least windowTime, and has at least windowPackets packets.
	windowTime, windowPackets = time.Second / 2, 32
	// earlierLife is how long a window is compared with later ones. In a minute
	// a clock that is off by 133 millionths goes wrong by leastLag; the
	// crystals of two machines usually differ by less.
	earlierLife = time.Minute
	// mostHidden bounds the part of a lag that our own queue may hide: see drift.
	mostHidden = 4
	// mostSpeed bounds the factor by which a clock is corrected. A peer that
	// reports more than that lies.
	mostSpeed = 16
)

// A peerClock turns the receiver's times into instants of a clock that runs as fast as ours.
//
// A clock that its own machine is correcting is wrong by up to a twelfth of the time
// (chrony's maxslewrate). With a clock that is slow by a hundredth, the one-way delay seems
// to shrink by 10 ms each second, so no queue is seen: on 10 Mbit/s a queue of 60 ms stood,
// and somebody else's transfer had a twentieth of the link. With a clock that is fast there
// always seems to be a queue: of a link that loses a hundredth, a quarter was used.
type peerClock struct {
	clock                   // turns the receiver's times as reported into raw instants
	speed     float64       // factor for raw time since set; 0 = the clock was never corrected
	set       instant       // the raw instant at which the clock was last corrected
	counts    instant       // the corrected instant of set
	wrong     time.Duration // the lag that was corrected then; negative = the clock was fast
	window    ways          // the newest window, not yet complete
	reference ways          // an earlier window, with which the newest one is compared
}

// ways holds the least delays on both ways, and the least round trip, in a window of time.
type ways struct {
	began             instant
	packets           int
	there, back, trip least
}

// note adds a packet that was sent at sent, arrived at a, and was acked at t.
func (w *ways) note(sent, a, t instant) {
	if w.packets++; w.packets == 1 {
		w.began = t
	}
	w.there.note(a - sent)
	w.back.note(t - a)
	w.trip.note(t - sent)
}

// lag returns by how much the peer's clock has fallen behind since an earlier window: by as much
// as the way there seems to be shorter, and the way back longer. For a clock that runs fast both
// are reversed, and the lag is negative. A queue does neither: it makes one way longer, or both.
func (w *ways) lag(earlier *ways) time.Duration {
	there, back := earlier.there.value-w.there.value, w.back.value-earlier.back.value
	if there > 0 {
		return max(min(there, back), 0)
	}
	return min(max(there, back), 0)
}

// drift returns the lag of a clock that has gone wrong in that direction
// before. It is what the way back shows, because on the way there our own queue
// hides a part of the lag. It is at most mostHidden times what both ways show:
// more is due to somebody's upload, which makes a queue on the way back.
func (w *ways) drift(earlier *ways) time.Duration {
	lag, back := w.lag(earlier), w.back.value-earlier.back.value
	if back.Abs()/mostHidden > lag.Abs() {
		return mostHidden * lag
	}
	return back
}

// arrival returns when a packet arrived that was sent at sent and acked at t; told is that
// time by the receiver's clock. If this call has corrected the clock, floor is the least
// delay on the way there from the reference, because delays measured since are wrong.
func (p *peerClock) arrival(t, sent instant, told time.Time) (a instant, floor least) {
	raw := p.at(told)
	if p.window.packets >= windowPackets && t-p.window.began >= windowTime {
		floor = p.compare(raw)
	}
	a = p.corrected(raw)
	p.window.note(sent, a, t)
	return a, floor
}

// corrected returns the instant of a raw one.
func (p *peerClock) corrected(raw instant) instant {
	if p.speed == 0 {
		return raw
	}
	since := min(max(float64(raw-p.set)*p.speed, float64(-furthest)), float64(furthest))
	return bounded(p.counts + instant(since))
}

// compare ends a window, and corrects the clock if it has gone wrong since the
// reference: then it returns the reference's least delay on the way there. The
// reference is the window with the shortest round trips, or the newest window if
// that one is older than earlierLife. The clock's speed is corrected only if the
// clock goes wrong in the same direction again: the first time it may have jumped.
func (p *peerClock) compare(raw instant) (floor least) {
	w, r := p.window, p.reference
	p.window = ways{}
	switch lag := w.lag(&r); {
	case r.packets > 0 && lag.Abs() > leastLag:
		again := p.wrong != 0 && lag > 0 == (p.wrong > 0)
		if again {
			lag = w.drift(&r)
		}
		p.counts, p.set = bounded(p.corrected(raw)+lag), raw
		p.speed = cmp.Or(p.speed, 1)
		if again {
			p.speed /= max(1-lag.Seconds()/(w.began-r.began).Seconds(), 1.0/mostSpeed)
			p.speed = min(max(p.speed, 1.0/mostSpeed), mostSpeed)
		}
		p.wrong, p.reference = lag, ways{}
		return r.there
	case r.packets == 0 || w.trip.value < r.trip.value-leastLag/4 || w.began-r.began > earlierLife:
		p.reference = w
	}
	return least{}
}

// forgetPath forgets the delays of a path that has changed.
func (p *peerClock) forgetPath() { p.window, p.reference = ways{}, ways{} }
