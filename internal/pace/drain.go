package pace

const (
	// emptyGain is the gain of a drain of a queue that no look made. At half the rate a
	// queue of 50 ms is gone in 100 ms.
	emptyGain = 0.5
	// drainRounds is the number of round trips of draining after which a remaining queue
	// is somebody else's.
	drainRounds = 3
)

// stepDrain waits until the queue is gone.
//
// If packets sent before the drain arrive at less than half of the estimate, and the
// queue continues to grow, the path has become slower. Then the rate is trimmed at once.
//
// A smaller difference may be due to others. So may that of packets sent in the drain at
// half the rate. Then the rate is trimmed at the end of a round, if the queue shrinks or
// drops packets: many controllers that began together fill it in spite of their drains.
//
// Any other queue is not ours, and costs no rate. When it did, each drain halved the rate
// when jitter began, and transfers took twice as long. Such a queue is somebody else's,
// or, if the drain does not move it, the delay of a longer path.
func (c *Controller) stepDrain(t instant, b batch, ended bool) {
	grows := c.queue > max(c.delay.target(), c.queueing.drained)
	if b.acked > 0 && b.newest.sent <= c.since && grows && c.recent < c.Estimate()/2 {
		c.trimIfSteady()
	}
	c.start.doubtful = c.start.doubtful && !ended
	if c.start.doubtful {
		c.doubt()
	}
	switch {
	case c.looks.payingBack:
		c.afterLook()
	case c.queue <= c.delay.aim() && c.inFlight <= c.Window():
		c.enter(Cruise, t)
	case !ended:
	case c.round.minQueue > c.delay.target() && c.round.drainsOurs(c.rounds < drainRounds, c.usual()):
		c.trim()
	case c.rounds < drainRounds:
	case c.queueing.rounds < drainRounds || c.round.shrinks():
		c.enter(Cruise, t)
	case !c.queueing.mayBeLonger(c.fastest), c.round.fates.above(c.usual()):
		c.compete(t)
	case c.queueing.stay.rounds >= stayRounds:
		c.goLonger(t)
	}
}

// trim lowers the estimate to the rate of the latest arrivals. While a queue stands, that
// is the rate of the bottleneck, or our share of it. trim lowers the estimate by half at
// most, because our own pauses may be among the arrivals.
func (c *Controller) trim() {
	recent := c.recent
	if s, ok := c.delivery.rate(c.delay.base() / 2); ok {
		recent = max(recent, s.arrival)
	}
	if estimate := c.rates.value(); recent > 0 && recent < estimate {
		c.rates.set(c.filling, max(recent, estimate/2))
	}
}

// trimIfSteady is trim for the middle of a round. It does nothing if the path has just
// stood still. Radio links and busy machines do so for tens of milliseconds, several
// times a second. They are not slower for it, as the packets that they held up show
// later.
func (c *Controller) trimIfSteady() {
	if c.delivery.steady(c.delay.base()/2, c.delay.still()) {
		c.trim()
	}
}
