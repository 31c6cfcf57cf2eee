package pace

import "time"

const (
	// leastDippers is how many controllers of one owner must compete for one queue to dip together. Where two downloads share a home's 1 to 5 Mbit/s,
	// calm or after weather, they too take each other for rivals: play beside them waited 80 ms and more in 0.2 to 0.9 of the time until two dipped.
	// Beside one New Reno two of one owner have 0.39 of a link with a queue of one product for that, and not 0.57.
	leastDippers = 2
	// leastDipRest is the time from one common Dip to the next. It doubles, up to mostDipRest, each time the queue does not go: the rests of all are
	// multiples of each other, so that they begin at the same moment.
	leastDipRest, mostDipRest = 4 * time.Second, 32 * time.Second
	// dipRounds is how many rounds a common Dip lasts at most: a queue of four products is gone by then.
	dipRounds = 4
	// dipSpread is over how many rounds more the looks behind a common Dip are spread, which has put all who took part in step.
	dipSpread = 8
)

// dips are Dips in which all who compete take part, as far as one owner knows of them. Many controllers that share a path take the queue of the
// others for a rival's, compete, and would fill it for ever, because the queue stays when one of them yields. So all who have lately competed dip at
// the same times. When the queue goes, it was theirs, and they cruise again. When it does not, it is somebody else's.
type dips struct {
	many   bool          // several controllers of the owner compete for one queue; set by Competitors
	since  instant       // when that began: the first common Dip is the next that is due, for others may have been told earlier
	epoch  instant       // the times of common Dips count from it, which is the same for all of them; set by Competitors
	common bool          // the Dip that goes on is a common one
	began  instant       // when the newest common one began; 0 = there was none
	rate   float64       // at which packets left before that
	rest   time.Duration // from one to the next: leastDipRest times a power of two; set by compete
}

// slot returns the number of the common Dip that was due last.
func (d *dips) slot(t instant) int64 { return int64((t - d.epoch) / max(d.rest, leastDipRest)) }

// putOff puts the next common Dip off when this one has not emptied the queue.
func (d *dips) putOff() {
	if d.common {
		d.rest = min(2*d.rest, mostDipRest)
	}
}

// wantsDip reports whether it is time for a common Dip.
func (c *Controller) wantsDip(t instant) bool {
	d, k := &c.dips, &c.competition
	if !d.many || !k.lately(t) || k.sharing.on || c.lacksData() || c.inFlight == 0 || c.rates.value() == 0 ||
		d.slot(t) == d.slot(max(k.began, d.began, d.since)) {
		return false
	}
	return c.state == Compete || c.state == Cruise || c.state == Drain || c.state == Up
}

// dipTogether begins a common Dip.
func (c *Controller) dipTogether(t instant) {
	competes, inFlight := c.state == Compete, float64(c.inFlight)
	if competes {
		inFlight = c.competition.window
	}
	c.dips.began, c.dips.rate = t, min(c.rates.value(), inFlight/max(c.delay.smoothed, 1).Seconds())
	c.enter(Dip, t)
	c.dips.common, c.competition.interrupted = true, competes
}

// stepDip ends the dip after a round trip in which every packet met a path that was left half empty, and a common one a little later if the queue
// is not gone by then; so one that interrupts a competition, while the queue shrinks. When there is still a queue, it is a competitor's, and the
// competition goes on.
func (c *Controller) stepDip(t instant, ended bool) {
	stands := c.round.leastQueue >= c.delay.target()/2
	switch {
	case c.rounds < 2 || !ended:
	case c.dips.common && !stands:
		c.stopCompeting(t)
	case stands && c.rounds < dipRounds && (c.dips.common || c.competition.interrupted && c.round.shrinks()):
	case c.competition.interrupted && stands:
		c.dips.putOff()
		c.enter(Compete, t)
	default:
		c.dips.putOff()
		c.delay.dipped(t)
		c.enter(Cruise, t)
	}
}

// stopCompeting ends a competition, because the queue was that of all who have dipped: each goes on at the rate that it had, and has to see a queue
// outlast a Drain before it competes again.
func (c *Controller) stopCompeting(t instant) {
	c.rates.set(c.filling, c.dips.rate)
	c.competition.seen, c.queueing.rounds = 0, 0
	c.delay.dipped(t)
	c.enter(Cruise, t)
	c.looks.pause += int(scatter(t) % dipSpread)
}
