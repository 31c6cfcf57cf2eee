package pace

const (
	// startGain doubles what is delivered each round trip (BBR).
	startGain = 2
	// emptyGain drains a queue that is not our own look's in as long as it is.
	emptyGain = 0.5
	// leastSteer and mostSteer bound the correction of the queue while cruising.
	leastSteer, mostSteer = 0.75, 1.25

	// trainPackets is how many packets at the rate to begin with must arrive before it is believed: another train.
	trainPackets = 16
	// flatRounds without growth, by a quarter each, mean that the path is full (BBR: full_bw_count, full_bw_thresh).
	flatRounds = 3
	growth     = 1.25
	// blind is the loss in a round of Start that no random loss explains: the path may drop what it does not queue.
	blind = maxRandomLoss + 0.05
	// drainRounds is after how many round trips a queue that stays is somebody else's, DESIGN.md 7.
	drainRounds = 3
	// idleRounds without a queue, though cruising steers for one, mean that somebody has left: a look need not wait.
	idleRounds = 1
)

// step moves the state machine after a feedback.
func (c *Controller) step(t instant, b batch, ended bool) {
	if ended {
		c.rounds++
		c.strain()
	}
	if c.judge() {
		c.enter(Start, t)
		c.full, c.flat = c.Estimate(), 0
		return
	}
	switch c.state {
	case Start:
		c.stepStart(t, b, ended)
	case Drain:
		c.stepDrain(t, b, ended)
	case Cruise:
		c.stepCruise(t, b, ended)
	case Up:
		c.stepUp(t, b)
	case Dip:
		c.stepDip(t, ended)
	case Compete:
		c.stepCompete(t, b, ended)
	}
}

// enter changes the state.
func (c *Controller) enter(s State, t instant) {
	if s == Cruise {
		c.pause = c.distance(t)
	}
	c.state, c.since, c.before, c.rounds, c.looked = s, t, c.delivery.total, 0, false
}

// strain counts the rounds in which a queue stayed, and remembers what we had before them; and those in which there was
// next to none.
func (c *Controller) strain() {
	if c.idle++; c.crest > c.delay.aim()/2 {
		c.idle, c.vain = 0, false
	}
	if c.standing <= c.delay.target()/2 {
		c.stays = 0
		return
	}
	if c.stays == 0 {
		c.kept = c.Estimate()
	}
	c.stays++
}

// stepStart grows until the path shows a queue, drops, or stops growing.
func (c *Controller) stepStart(t instant, b batch, ended bool) {
	switch {
	case c.queue > c.delay.target(), b.lost > 0 && c.roundLeft.share() > blind && c.roundLeft.above(blind):
		c.measured()
		c.trim()
		c.enter(Drain, t)
	case c.careful:
		if c.confirmed() {
			c.careful = false
			c.measured()
			c.open(t)
		}
	case !ended || c.rounds < 2:
	case c.measured() > c.full*growth:
		c.full, c.flat = c.Estimate(), 0
	default:
		if c.flat++; c.flat >= flatRounds {
			c.enter(Drain, t)
		}
	}
}

// confirmed tells whether enough arrived to take a measured rate for the one to begin with.
func (c *Controller) confirmed() bool {
	return c.rounds > 0 && c.delivery.total-c.before >= int64(trainPackets*c.cfg.Packet) && c.rates.value() > 0
}

// measured replaces the hint by what was measured, and returns that.
func (c *Controller) measured() float64 {
	if c.rates.value() > 0 {
		c.hint = 0
	}
	return c.Estimate()
}

// trim lowers the estimate to the rate of the latest arrivals, by half at most, for some of that rate may be our own
// pauses': while a queue stands, what arrives shows the rate of the bottleneck, or our share of it.
func (c *Controller) trim() {
	if estimate := c.rates.value(); c.recent > 0 && c.recent < estimate {
		c.rates.set(c.round, max(c.recent, estimate/2))
	}
}

// stepDrain waits for the queue to be gone. What left before it tells at once when the path has become much slower; less,
// which may be another's packets, and what leaves in it, at half the rate, tells at the end of a round.
func (c *Controller) stepDrain(t instant, b batch, ended bool) {
	if b.acked > 0 && b.newest.sent <= c.since && c.queue > c.delay.target() && c.recent < c.Estimate()/2 {
		c.trim()
	}
	switch {
	case c.looked:
		c.afterLook(t)
	case c.queue <= c.delay.aim() && c.inFlight <= c.Window():
		c.enter(Cruise, t)
	case !ended:
	case c.rounds < drainRounds:
		if c.standing > c.delay.target() {
			c.trim()
		}
	case c.standing > c.delay.target() && c.goes():
		c.trim()
	case c.stays >= drainRounds && !c.goes():
		c.compete(t)
	default:
		c.enter(Cruise, t)
	}
}

// goes tells whether the queue shrinks as we drain: then it is our own, and the path has become slower.
func (c *Controller) goes() bool { return c.standing < c.stood*3/4 }

// stepCruise watches for a queue that stands, and looks for more rate now and then.
func (c *Controller) stepCruise(t instant, b batch, ended bool) {
	target := c.delay.target()
	switch {
	case c.rival > 0 && t-c.rival < minimumLife && c.stays >= drainRounds:
		c.compete(t)
	case c.queue > 2*target, ended && c.standing > target, c.queue > target && c.excess(b):
		c.trim()
		c.enter(Drain, t)
	case t-c.delay.touched > minimumLife/2:
		c.enter(Dip, t)
	case ended && (c.rounds >= c.pause || c.vacant()) && c.delivery.limited <= c.delivery.total:
		c.open(t)
	}
}

// excess tells whether more was just lost than random loss explains.
func (c *Controller) excess(b batch) bool { return b.lost > 0 && c.roundLeft.above(c.usual()) }

// vacant tells whether the bottleneck has room: it stays without a queue though we steer for one. A look that found none
// all the same, for the path drops or the sender is too slow, is not repeated before its time.
func (c *Controller) vacant() bool {
	return c.rounds > idleRounds && c.idle >= idleRounds && !c.vain && !c.shallow
}

// stepDip ends after a round trip of which every packet met a path that we left half empty.
func (c *Controller) stepDip(t instant, ended bool) {
	if c.rounds >= 2 && ended {
		c.delay.touched = t
		c.enter(Cruise, t)
	}
}

// compete begins with the part of the bottleneck that we had before the queue stayed.
func (c *Controller) compete(t instant) {
	c.window = max(c.kept*c.delay.smoothed.Seconds(), c.leastWindow())
	c.cut = t
	c.enter(Compete, t)
}

// stepCompete is New Reno's congestion avoidance (RFC 5681), until the queue is gone for a round trip.
func (c *Controller) stepCompete(t instant, b batch, ended bool) {
	switch {
	case b.lately && c.queue > c.delay.target():
		c.halve(t)
	case ended && c.standing < c.delay.target()/2:
		c.rival = t
		c.enter(Cruise, t)
	case ended:
		c.window += float64(c.cfg.Packet)
	}
}

// halve answers a loss epoch.
func (c *Controller) halve(t instant) {
	c.window = max(c.window/2, c.leastWindow())
	c.cut = t
}
