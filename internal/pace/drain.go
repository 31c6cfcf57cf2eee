package pace

const (
	// emptyGain is the gain while we drain a queue that no look of ours built. At half the rate, a
	// queue of 50 ms is gone in 100 ms.
	emptyGain = 0.5

	// drainRounds is how many round trips we must drain before we attribute a remaining queue to
	// other flows.
	drainRounds = 3

	// risePackets is how many packets show that the path has become faster, and minRise is by how
	// much it must have. At least that much would cost us several looks to find.
	risePackets, minRise = 8, 2
)

// stepDrain waits for the queue to disappear, and lowers the rate if the queue shows that it is too
// high.
//
// The path has become slower if packets sent before the drain arrive at less than half of the
// estimate while the queue keeps growing. Then we trim the rate at once.
//
// If the arrival rate is less low, or if the packets were sent at half the rate during the drain,
// other flows may be the reason. In that case we trim the rate at the end of a round (see
// judgeDrain).
//
// If the path becomes faster again, we don't wait for the end of the queue.
func (c *Controller) stepDrain(t instant, b batch, ended bool) {
	grows := c.queue > max(c.delay.target(), c.queueing.drained)
	if b.acked > 0 && b.newest.sent <= c.since && grows && c.recent < c.Estimate()/2 {
		c.trimIfSteady()
	}
	c.start.doubtful = c.start.doubtful && !ended
	if c.start.doubtful {
		c.doubt()
	}
	if rate, ok := c.risenTo(); ok {
		c.rates.set(c.filling, rate)
		c.enter(Cruise, t)
		c.queueing.outdated = t
		c.start.answered = t // what the slow path's queue dropped
		return
	}
	switch {
	case c.looks.payingBack:
		c.afterLook()
	case c.queue <= c.delay.aim() && c.inFlight <= c.Window():
		c.enter(Cruise, t)
	case ended:
		c.judgeDrain(t)
	}
}

// risenTo returns the rate of a path that was slow when the drain began, and has become faster. The
// packets that the slow path queued show it at once, because they now arrive faster than we sent
// them.
//
// Other causes are excluded. In jitter, packets arrive in clumps however fast the path is. Flows
// that share a queue make room for each other when they drain it. But both rarely delay packets by
// more than a round trip, as a path does that loses half of its rate. (Jitter itself doesn't
// exclude a rise, because a rate that swings looks like jitter.) And the first drain may follow a
// start together with others: if it counted, eight of them within 50 ms would lose 5 % instead of
// 2 %.
//
// Since even without jitter a few packets may arrive in a clump, we return no higher rate than the
// path has had before, and no more than twice the rate at which packets arrived by our own clock,
// because the peer's may lie. If there seems to be jitter, it's no more than that rate itself. With
// twice that rate, a path of 50 Mbit/s that falls to a tenth every second, with jitter of 50 ms,
// would lose 14 % instead of none.
func (c *Controller) risenTo() (rate float64, ok bool) {
	deepest := max(c.queueing.drained, c.round.maxQueue)
	if deepest < c.delay.base()+c.delay.jitter() || c.look.number == c.looks.before {
		return 0, false
	}
	s, ok := c.delivery.rateOf(int64(risePackets*c.cfg.Packet), 0)
	if !ok || s.stood || s.grown >= 0 {
		return 0, false
	}
	supported := c.supportedRate()
	if c.delay.jitter() > 0 {
		supported /= 2
	}
	rate = min(s.arrival, c.fastest, supported)
	return rate, rate >= minRise*c.Estimate()
}

// judgeDrain decides at the end of a round what a queue that hasn't disappeared means.
//
// It trims the rate if the queue shrinks or drops packets, as it does when many controllers that
// began together fill it in spite of their drains. No other queue is ours, so it shouldn't lower
// our rate. If it did, each drain would halve the rate when jitter begins, and transfers would
// take twice as long. Such a queue belongs to other flows or, if it doesn't move when we drain,
// is the delay of a longer path.
func (c *Controller) judgeDrain(t instant) {
	if c.round.minQueue > c.delay.target() && c.round.drainsOurs(c.rounds < drainRounds, c.usual()) {
		c.trim()
		return
	}
	if c.rounds < drainRounds {
		return
	}
	switch {
	case c.queueing.rounds < drainRounds || c.round.shrinks():
		c.enter(Cruise, t)
	case !c.queueing.mayBeLonger(c.fastest), c.round.fates.above(c.usual()):
		c.compete(t)
	case c.queueing.stay.rounds >= stayRounds:
		c.restartOnLongerPath(t)
	}
}

// trim lowers the estimate to the rate of the latest arrivals, which is the bottleneck's rate while
// a queue stands, or our share of it. It lowers the estimate by no more than half, because the
// arrivals may include pauses of our own.
func (c *Controller) trim() {
	recent := c.recent
	if s, ok := c.delivery.rate(c.delay.base() / 2); ok {
		recent = max(recent, s.arrival)
	}
	if estimate := c.rates.value(); recent > 0 && recent < estimate {
		c.rates.set(c.filling, max(recent, estimate/2))
	}
}

// trimIfSteady is trim for the middle of a round. It does nothing if the path has just stood still,
// as radio links and busy machines do for tens of milliseconds, several times a second. They aren't
// slower for that, as we see when the packets that they held up arrive.
func (c *Controller) trimIfSteady() {
	if c.delivery.steady(c.delay.base()/2, c.delay.still()) {
		c.trim()
	}
}
