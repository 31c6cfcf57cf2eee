package pace

import "time"

const (
	// minDipRest is the time from one common Dip to the next. It doubles, up to
	// maxDipRest, each time the queue remains, and each time rivals return after the Dip.
	// When it did not double, one CUBIC beside one of ours had 0.7 of a link with a queue
	// of one product.
	//
	// The rests of all controllers are multiples of each other, so their Dips begin at
	// the same moment. The minimum rest is dipTrips round trips, because a Dip takes some
	// of them.
	minDipRest, maxDipRest, dipTrips = 4 * time.Second, 32 * time.Second, 40
	// minCompeteTime is the time that a competition lasts before it joins a Dip of
	// others.
	//
	// A competition joins if others have left a queue below the part joinQueue of what it
	// was, once joinRest of the rest has passed. So controllers whose clocks or rests
	// differ fall into step.
	minCompeteTime, joinRest, joinQueue = time.Second, 0.5, 0.7
	// dipRounds is the maximum number of rounds in a common Dip. A queue of four products
	// is gone by then.
	dipRounds = 4
	// wholePath is the part of the path's highest rate ever at which nobody else seems to
	// use the path.
	wholePath = 0.9
	// dipSpread is the number of additional rounds over which the looks after a common
	// Dip are spread, because the Dip put all participants in step.
	dipSpread = 8
)

// dips holds the state of common Dips, in which all competing controllers take part.
//
// Controllers that share a path take each other's queue for a rival's, and compete. They
// would fill the queue forever, because it stays if one of them yields. They can't know
// about each other, so they dip at the same times of the day.
//
// A controller that dips makes the queue shorter than it was recently. All others see
// that. So controllers whose clocks are wrong by some tenths of a second follow within a
// round trip.
//
// If the queue goes, it was theirs, and they cruise again. If it remains, it is somebody
// else's.
type dips struct {
	common   bool          // the present Dip is a common one
	began    instant       // when the newest common Dip began; 0 = there was none
	rate     float64       // rate at which packets were sent before it, in bytes per second
	rest     time.Duration // time from one to the next: minDipRest times a power of two; set by compete
	answered bool          // rest was doubled since began
	queue    lastSeconds
}

// failed records that the queue still stands after a Dip, or that the Dip was not a
// common one.
func (d *dips) failed() {
	if d.common {
		d.putOff()
	}
}

// putOff delays the next common Dip, because the present one did not empty the queue, or
// because rivals returned.
func (d *dips) putOff() {
	if !d.answered {
		d.rest = min(2*d.rest, maxDipRest)
		d.answered = true
	}
}

// compete is called when a competition begins. base is the path's round trip. It reports
// whether the competition begins soon after a common Dip.
func (d *dips) compete(t instant, base time.Duration) (soon bool) {
	since := t - d.began
	soon = d.began > 0 && since < minimumLife
	switch {
	case soon:
		d.putOff()
	case d.began == 0 || since > 2*d.rest:
		for d.rest = minDipRest; d.rest < min(dipTrips*base, maxDipRest); d.rest *= 2 {
		}
	}
	return soon
}

// due reports whether a common Dip was due between two times since Config.Epoch.
func (d *dips) due(before, now time.Duration) bool { return now/d.rest != before/d.rest }

// wantsDip reports whether a common Dip should begin: because it is due, because others
// began one, or because we compete although we have the whole path.
func (c *Controller) wantsDip(t instant) bool {
	d, k := &c.dips, &c.competition
	lowest := d.queue.note(t, c.queue)
	if c.queue < c.delay.target()/2 || c.state != Compete && !k.lately(t) || k.sharing.on {
		return false
	}
	if c.lacksData() || c.inFlight == 0 || c.rates.value() == 0 {
		return false
	}
	if c.state != Compete && c.state != Cruise && c.state != Drain && c.state != Up {
		return false
	}
	zero := c.local.time(0).Sub(c.cfg.Epoch)
	joins := lowest && float64(c.queue) < joinQueue*float64(d.queue.max()) &&
		float64(t-d.began) >= joinRest*float64(d.rest)
	alone := c.state == Compete && t-d.began >= minDipRest && ownsPath(c.rates.value(), c.fastest)
	return d.due(zero+max(k.began, d.began), zero+t) || (joins || alone) && t-k.began >= minCompeteTime
}

// ownsPath reports whether a rate is about the highest rate that the path ever gave.
func ownsPath(rate, fastest float64) bool { return rate >= wholePath*fastest }

// dipTogether begins a common Dip.
func (c *Controller) dipTogether(t instant) {
	competes := c.state == Compete
	inFlight := float64(c.inFlight)
	if competes {
		inFlight = c.competition.window
	}
	c.dips.began = t
	c.dips.answered = false
	c.dips.rate = min(c.rates.value(), inFlight/max(c.delay.smoothed, 1).Seconds())
	c.enter(Dip, t)
	c.dips.common = true
	c.competition.interrupted = competes
}

// stepDip ends a Dip after a round trip in which every packet met a half-empty path.
//
// A common Dip lasts a little longer if the queue is not gone by then. If there is still
// a queue after that, it is a competitor's, and the competition continues.
func (c *Controller) stepDip(t instant, ended bool) {
	queue := c.round.minQueue
	if c.dips.common {
		queue += c.delay.risen() // after a long competition the minimum delay includes the queue
	}
	stands := queue >= c.delay.target()/2
	switch {
	case c.rounds < 2 || !ended:
	case c.dips.common && !stands:
		c.stopCompeting(t)
	case stands && c.dips.common && c.rounds < dipRounds:
	case stands && c.dips.common && ownsPath(c.dips.rate, c.fastest):
		// Nobody else was there to fill a queue.
		c.goLonger(t)
	case c.competition.interrupted && stands:
		c.dips.failed()
		c.enter(Compete, t)
	default:
		c.dips.failed()
		c.delay.dipped(t)
		c.enter(Cruise, t)
	}
}

// stopCompeting ends a competition, because the queue was that of all controllers that
// dipped. Each continues at the rate that it had. A queue must outlast a Drain before the
// controller competes again.
func (c *Controller) stopCompeting(t instant) {
	c.rates.set(c.filling, c.dips.rate)
	c.competition.seen, c.queueing.rounds = 0, 0
	c.delay.dipped(t)
	c.enter(Cruise, t)
	c.looks.pause += int(scatter(t) % dipSpread)
}
