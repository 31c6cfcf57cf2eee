package pace

const (
	// emptyGain drains a queue that is not our own look's in as long as it is.
	emptyGain = 0.5
	// drainRounds is after how many round trips a queue that stays is somebody else's, DESIGN.md 7.
	drainRounds = 3
)

// stepDrain waits for the queue to be gone. What left before it tells at once when the path has become much slower; less,
// which may be another's packets, and what leaves in it, at half the rate, tells at the end of a round.
func (c *Controller) stepDrain(t instant, b batch, ended bool) {
	if b.acked > 0 && b.newest.sent <= c.since && c.queue > c.delay.target() && c.recent < c.Estimate()/2 {
		c.trimIfSteady()
	}
	if c.doubtful = c.doubtful && !ended; c.doubtful {
		c.doubt()
	}
	switch {
	case c.payingBack:
		c.afterLook()
	case c.queue <= c.delay.aim() && c.inFlight <= c.Window():
		c.enter(Cruise, t)
	case !ended:
	case c.rounds < drainRounds:
		if c.round.leastQueue > c.delay.target() {
			c.trim()
		}
	case c.round.leastQueue > c.delay.target() && c.round.shrinks():
		c.trim()
	case c.queueRounds >= drainRounds && !c.round.shrinks():
		c.compete(t)
	default:
		c.enter(Cruise, t)
	}
}

// trim lowers the estimate to the rate of the latest arrivals, by half at most, for some of that rate may be our own
// pauses': while a queue stands, what arrives shows the rate of the bottleneck, or our share of it.
func (c *Controller) trim() {
	recent := c.recent
	if s, ok := c.delivery.rate(c.delay.base() / 2); ok {
		recent = max(recent, s.arrival)
	}
	if estimate := c.rates.value(); recent > 0 && recent < estimate {
		c.rates.set(c.filling, max(recent, estimate/2))
	}
}

// trimIfSteady is trim before a round has ended, unless the path has just stood still: radio links and busy machines stand
// still for tens of milliseconds, several times a second, and are no slower for it, as what they gathered shows later on.
func (c *Controller) trimIfSteady() {
	if c.delivery.steady(c.delay.base()/2, c.delay.still()) {
		c.trim()
	}
}
