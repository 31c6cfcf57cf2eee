package pace

import "time"

const (
	// minDipRest is the time from one common Dip to the next. It doubles, up to maxDipRest, each
	// time the queue remains, and each time rivals are back after the Dip. Otherwise one CUBIC
	// beside one of ours would get 0.7 of a link whose queue holds one bandwidth-delay product.
	//
	// All rests are minDipRest times a power of two, so that the Dips of all controllers begin at
	// the same moment. They are at least dipTrips round trips, because a Dip takes several of
	// those.
	minDipRest, maxDipRest, dipTrips = 4 * time.Second, 32 * time.Second, 40

	// A controller that has competed for minCompeteTime joins a Dip of others when it sees the
	// queue fall below joinQueue of what it was, unless less than joinRest of its rest has passed.
	// This synchronizes controllers whose clocks or rests differ.
	minCompeteTime, joinRest, joinQueue = time.Second, 0.5, 0.7

	// dipRounds is how many rounds a common Dip may take. Within that time, a queue of four
	// bandwidth-delay products drains.
	dipRounds = 4

	// wholePath is the part of the highest rate ever seen on the path that our rate must reach to
	// show that nobody else uses the path.
	wholePath = 0.9

	// dipSpread is the number of additional rounds over which looks are spread after a common Dip.
	// Otherwise all controllers would look at the same time, since the Dip has synchronized them.
	dipSpread = 8
)

// dips schedules common Dips, in which all competing controllers take part. In a Dip, a controller
// sends so little for a round trip that it leaves the path half empty.
//
// Controllers that share a path take each other's queue for a rival's, and compete. They could go
// on like that forever, because the queue doesn't go away if only one of them yields, and they
// don't know of each other. But since each has a clock, they can dip at the same times of day. If
// the queue goes away, it was theirs, and they cruise again. If it stays, it belongs to other
// flows.
//
// Clocks may be off by some tenths of a second, but each controller sees the queue shrink when
// others dip, and follows within a round trip.
type dips struct {
	common   bool          // the current Dip is a common one
	began    instant       // when the newest common Dip began; 0 = none yet
	rate     float64       // our sending rate before it, in bytes per second
	rest     time.Duration // from one to the next: minDipRest times a power of two; set by compete
	answered bool          // rest has been doubled since began
	queue    lastSeconds
}

// failed is called at the end of a Dip that didn't show the queue to be ours.
func (d *dips) failed() {
	if d.common {
		d.putOff()
	}
}

// putOff doubles the rest, at most once per common Dip, because the Dip didn't empty the queue or
// because rivals are back.
func (d *dips) putOff() {
	if !d.answered {
		d.rest = min(2*d.rest, maxDipRest)
		d.answered = true
	}
}

// compete is called when a competition begins. It puts off the next common Dip if one was shortly
// before, and reports whether there was. base is the path's minimum round trip.
func (d *dips) compete(t instant, base time.Duration) (soon bool) {
	since := t - d.began
	soon = d.began > 0 && since < minimumLife
	if soon {
		d.putOff()
	} else if d.began == 0 || since > 2*d.rest {
		d.rest = firstDipRest(base)
	}
	return soon
}

// firstDipRest returns the rest until the first common Dip of a competition.
func firstDipRest(base time.Duration) time.Duration {
	rest := minDipRest
	for rest < min(dipTrips*base, maxDipRest) {
		rest *= 2
	}
	return rest
}

// due reports whether a common Dip was due after before and no later than now, both since
// Config.Epoch.
func (d *dips) due(before, now time.Duration) bool { return now/d.rest != before/d.rest }

// checkDip records the queue and reports whether a common Dip should begin: because one is due,
// because others have begun one, or because we compete although we have the whole path to
// ourselves.
func (c *Controller) checkDip(t instant) bool {
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

// ownsPath reports whether a rate is about the highest that we ever had on the path.
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
func (c *Controller) stepDip(t instant, ended bool) {
	queue := c.round.minQueue
	if c.dips.common {
		queue += c.delay.risen() // after a long competition, the minimum delay includes the queue
	}
	stands := queue >= c.delay.target()/2
	if c.rounds < 2 || !ended {
		return // the packets acked so far met what we sent before the Dip
	}
	switch {
	case c.dips.common && !stands:
		c.stopCompeting(t)
	case stands && c.dips.common && c.rounds < dipRounds:
		// Give a deep queue more time to drain.
	case stands && c.dips.common && ownsPath(c.dips.rate, c.fastest):
		// We had the whole path, so nobody else filled a queue, and it must be the path that is
		// longer.
		c.restartOnLongerPath(t)
	case c.competition.interrupted && stands:
		// The queue is a competitor's.
		c.dips.failed()
		c.enter(Compete, t)
	default:
		c.dips.failed()
		c.delay.dipped(t)
		c.enter(Cruise, t)
	}
}

// stopCompeting ends a competition that turned out to be one among our own controllers. Each of
// them keeps its rate, and doesn't compete again until a queue outlasts a Drain.
func (c *Controller) stopCompeting(t instant) {
	c.rates.set(c.filling, c.dips.rate)
	c.competition.seen = 0
	c.queueing.rounds = 0
	c.delay.dipped(t)
	c.enter(Cruise, t)
	c.looks.pause += int(scatter(t) % dipSpread)
}
