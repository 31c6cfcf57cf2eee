package pace

import (
	"cmp"
	"time"
)

// instant is a time, as a duration since an epoch: in a packet's record it takes 8 bytes instead of 24.
type instant = time.Duration

// furthest bounds instants, so that differences between a peer's times do not overflow.
const furthest instant = 1 << 60

// bounded returns i, or what furthest leaves of it.
func bounded(i instant) instant { return min(max(i, -furthest), furthest) }

// clock turns times of one clock into instants. They begin at 1, so that 0 can mean never.
type clock struct{ epoch time.Time }

func (c *clock) at(t time.Time) instant {
	if c.epoch.IsZero() {
		c.epoch = t.Add(-1)
	}
	return bounded(t.Sub(c.epoch))
}

func (c *clock) time(i instant) time.Time { return c.epoch.Add(i) }

const (
	// leastLag is how far a peer's clock must have gone wrong before it is set right. By a right clock the least delays of two windows differ by
	// less.
	leastLag = 8 * time.Millisecond
	// A window takes at least windowTime, and has at least windowPackets packets.
	windowTime, windowPackets = time.Second / 2, 32
	// earlierLife is how long a window is compared with later ones. In a minute a clock that is wrong by 133 millionths goes wrong by leastLag;
	// the crystals of two machines differ by less, as a rule.
	earlierLife = time.Minute
	// mostHidden bounds the part of a lag that our own queue may hide: see drift.
	mostHidden = 4
	// mostSpeed bounds how far a clock is corrected; who tells more than that lies.
	mostSpeed = 16
)

// peerClock turns the receiver's times into instants of a clock that goes as fast as ours. A clock that its own machine is setting right goes wrong
// by up to a twelfth of the time (chrony's maxslewrate). By one that is slow by a hundredth, the way there seems to become shorter by 10 ms each
// second, so no queue is seen: on 10 Mbit/s a queue of 60 ms stood, and somebody else's transfer had a twentieth of the link. By one that is fast
// there always seems to be a queue: of a link that loses a hundredth, a quarter was used.
type peerClock struct {
	clock                   // of the receiver's times as they come: raw instants
	speed     float64       // factor for raw time since set; 0 = the clock was never set right
	set       instant       // the raw instant at which it was last set right
	counts    instant       // the corrected instant that set stands for
	wrong     time.Duration // the lag that was corrected then; below 0 = the clock went fast
	window    ways          // the newest, not yet complete
	reference ways          // an earlier one, with which that is compared
}

// ways are the least delays on both ways, and the least round trip, in a window of time.
type ways struct {
	began             instant
	packets           int
	there, back, trip least
}

// note notes a packet that left at sent, arrived at a, and was acked at t.
func (w *ways) note(sent, a, t instant) {
	if w.packets++; w.packets == 1 {
		w.began = t
	}
	w.there.note(a - sent)
	w.back.note(t - a)
	w.trip.note(t - sent)
}

// lag returns by how much the peer's clock has gone slow since an earlier window: by as much as the way there seems to be shorter, and the way back
// longer. One that goes fast does the contrary, and has a lag below 0. A queue does neither: it makes one way longer, or both.
func (w *ways) lag(earlier *ways) time.Duration {
	there, back := earlier.there.value-w.there.value, w.back.value-earlier.back.value
	if there > 0 {
		return max(min(there, back), 0)
	}
	return min(max(there, back), 0)
}

// drift is the lag of a clock that has gone wrong in that direction before: as much as the way back shows, for on the way there our own queue hides a
// part of it. It is at most mostHidden times what both ways show: more is somebody's upload, which makes a queue on the way back.
func (w *ways) drift(earlier *ways) time.Duration {
	lag, back := w.lag(earlier), w.back.value-earlier.back.value
	if back.Abs()/mostHidden > lag.Abs() {
		return mostHidden * lag
	}
	return back
}

// arrival returns when a packet arrived that left at sent and was acked at t; told is that time by the receiver's clock. When this call has set the
// clock right, floor is the least delay on the way there, as the reference has it: what was measured since is wrong.
func (p *peerClock) arrival(t, sent instant, told time.Time) (a instant, floor least) {
	raw := p.at(told)
	if p.window.packets >= windowPackets && t-p.window.began >= windowTime {
		floor = p.compare(raw)
	}
	a = p.corrected(raw)
	p.window.note(sent, a, t)
	return a, floor
}

// corrected returns the instant that a raw one stands for.
func (p *peerClock) corrected(raw instant) instant {
	if p.speed == 0 {
		return raw
	}
	since := min(max(float64(raw-p.set)*p.speed, float64(-furthest)), float64(furthest))
	return bounded(p.counts + instant(since))
}

// compare ends a window, and sets the clock right if it has gone wrong since the reference: then it returns the reference's least delay on the way
// there. The reference is the window with the shortest round trips, or the newest one when that is older than earlierLife. The clock's speed is
// corrected only when it is wrong in the same direction once more: the first time it may have jumped.
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
