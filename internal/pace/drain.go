package pace

const (
	// emptyGain is the gain while we drain a queue that no look has made. At half the rate, a
	// queue of 50 ms is gone in 100 ms.
	emptyGain = 0.5

	// drainRounds is for how many round trips we must drain until a queue that remains is somebody
	// else's.
	drainRounds = 3
)

// stepDrain waits for the queue to disappear.
//
// The path has become slower if packets sent before the drain arrive at less than half of the
// estimate while the queue keeps growing. Then we trim the rate at once.
//
// If the difference is smaller, it may be due to others, and so may that of packets which we
// sent at half the rate during the drain. In that case we trim the rate at the end of a round,
// provided that the queue shrinks or drops packets, as it does when many controllers that began
// together fill it in spite of their drains.
//
// No other queue is ours, and it shouldn't cost us any rate. When it did, each drain halved the
// rate when jitter began, and transfers took twice as long. Such a queue is somebody else's, or
// if it doesn't move when we drain, it's the delay of a longer path.
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

// trim lowers the estimate to the rate of the latest arrivals, which is the bottleneck's rate
// while a queue stands, or our share of it. The estimate goes down by no more than half, because
// the arrivals may include pauses of our own.
func (c *Controller) trim() {
	recent := c.recent
	if s, ok := c.delivery.rate(c.delay.base() / 2); ok {
		recent = max(recent, s.arrival)
	}
	if estimate := c.rates.value(); recent > 0 && recent < estimate {
		c.rates.set(c.filling, max(recent, estimate/2))
	}
}

// trimIfSteady is trim for the middle of a round. It does nothing if the path has just stood
// still, as radio links and busy machines do for tens of milliseconds, several times a second.
// That doesn't make them slower, as we will see when the packets arrive that they have held up.
func (c *Controller) trimIfSteady() {
	if c.delivery.steady(c.delay.base()/2, c.delay.still()) {
		c.trim()
	}
}
