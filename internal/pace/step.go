package pace

import "time"

const (
	// startGain doubles what is delivered each round trip, though samples are a mean over one: 4 ln 2 (BBR's
	// startup_pacing_gain). startWindow lets a round trip of it be in flight.
	startGain, startWindow = 2.77, 2
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
	// vacantRounds in a row with next to no queue though we compete mean that nobody else is there.
	vacantRounds = 8
	// leastDwell is how long losses of a short queue keep us competing at first: such a queue is gone most of the time
	// though others fill it. It doubles each time they come back, up to mostDwell.
	leastDwell, mostDwell = 2 * time.Second, 30 * time.Second
	// additive and multiplicative are a pair of AIMD that is as fast as New Reno's 1 and 0.5 (RFC 9438, 4.3, for 0.7):
	// growth in proportion to what one has would be unfair for ever.
	additive, multiplicative = 0.53, 0.7
	// leastCompete packets are the least window of a competitor: 16 flows of four would be 15 % of loss by themselves.
	leastCompete = 2
	// outpacedPart is which part of what is sent arrives when it makes a queue grow that matters.
	outpacedPart = 0.9
	// leastShare is which part of what arrived of its first flight a newcomer takes at least on a path that others fill.
	leastShare = 0.25
	// leastHint is the part of a hint that stays when nearly all of its first flight was lost.
	leastHint = 0.125
)

// step moves the state machine after a feedback.
func (c *Controller) step(t instant, b batch, ended bool) {
	if ended {
		c.rounds++
		c.strain()
	}
	if c.judge() && !c.isBurnt(t) {
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
	if c.idle++; c.crest > max(c.delay.aim()/2, c.delay.jitter()/4) {
		c.idle, c.vain = 0, false
	}
	if c.vacated++; c.state != Compete || c.crest > max(c.delay.depth/4, shallow/2) {
		c.vacated = 0
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
	case c.careful && c.confirmed():
		c.confirm(t)
	case c.queue > c.delay.target() && c.outpaced() && !c.careful, b.lost > 0 && c.roundLeft.share() > blind && c.roundLeft.above(blind):
		if c.rates.value() == 0 {
			c.hint *= max(1-c.roundLeft.share(), leastHint)
		}
		if c.queue <= c.delay.target() {
			c.burnt = t
		}
		c.measured()
		c.trim()
		c.enter(Drain, t)
	case !ended || c.rounds < 2 || c.careful:
	case c.measured() > c.full*growth:
		c.full, c.flat = c.Estimate(), 0
	default:
		if c.flat++; c.flat >= flatRounds {
			c.enter(Drain, t)
		}
	}
}

// confirm takes the rate of the first flight for the one to begin with, and looks for more where there seems to be room.
// Where less arrived than was sent, others fill the path, and what arrived is our share of a queue that takes all: too much.
// While the flight was sent, the queue grew by what others and we sent beyond the path's rate, which the hint tells; what
// others left is the rest. A leastShare of what arrived is begun with anyway, for the hint may have been too high.
func (c *Controller) confirm(t instant) {
	s, ok := c.delivery.flight()
	if !ok || s.limited || s.took < minStanding && c.delivery.total-c.before < int64(c.Window())*9/10 {
		return
	}
	c.careful = false
	full := s.arrival < outpacedPart*s.sent && s.grown > 2*burstTime
	rate := s.shown()
	if full {
		rate = min(rate, max(s.sent-c.hint*(s.sent/s.arrival-1), leastShare*s.arrival))
	}
	c.hint = 0
	c.rates.set(c.filling, rate+c.play)
	if full {
		c.enter(Drain, t)
	} else {
		c.open(t, true)
	}
}

// outpaced tells whether less arrives than was sent: that is what makes a queue of ours grow, and jitter does not.
func (c *Controller) outpaced() bool {
	s, ok := c.delivery.rate(c.delay.base() / 2)
	return ok && s.arrival < outpacedPart*s.sent
}

// confirmed tells whether enough arrived to take a measured rate for the one to begin with.
func (c *Controller) confirmed() bool {
	return c.delivery.total-c.before >= int64(trainPackets*c.cfg.Packet)
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
		c.rates.set(c.filling, max(c.recent, estimate/2))
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
		c.afterLook()
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
	case c.look.until == 0 && (b.full || c.flooded()):
		c.answerLoss(t)
	case c.queue > 2*target, ended && c.standing > target, c.queue > target && c.excess(b):
		c.trim()
		c.enter(Drain, t)
	case t-c.delay.touched > minimumLife/2:
		c.enter(Dip, t)
	case ended && (c.rounds >= c.pause || c.vacant()) && c.delivery.limited <= c.delivery.total:
		c.open(t, false)
	}
}

// answerLoss answers losses of a full queue that no look of ours explains. The first time the aim may have been too deep for
// a queue that short; the next time somebody else fills it.
func (c *Controller) answerLoss(t instant) {
	c.remember(t)
	if !c.flooded() && (c.bumped == 0 || t-c.bumped > minimumLife/2) {
		c.bumped = t
		c.trim()
		c.enter(Drain, t)
		return
	}
	if c.kept = c.recent; c.kept == 0 {
		c.kept = c.Estimate()
	}
	c.compete(t)
	c.halve(t)
}

// flooded reports that more is lost in this round than any random loss explains, whatever the queue.
func (c *Controller) flooded() bool {
	return c.roundLeft.share() > blind && c.roundLeft.beyond(maxRandomLoss)
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
	if c.dwell = min(2*c.dwell, mostDwell); c.rival == 0 || t-c.rival > minimumLife {
		c.dwell = leastDwell
	}
	c.rival = t
	c.window = max(c.kept*c.delay.smoothed.Seconds(), c.leastWindow())
	c.cut = t
	c.enter(Compete, t)
}

// stepCompete is congestion avoidance as of New Reno (RFC 5681), until the queue is gone for a round trip.
func (c *Controller) stepCompete(t instant, b batch, ended bool) {
	switch {
	case b.lately && (b.full || c.flooded() || c.queue > c.delay.target()):
		c.rival = t
		c.halve(t)
	case ended && c.alone(t):
		c.resign(t)
	case ended:
		c.window += additive * float64(c.cfg.Packet)
	}
}

// resign goes on alone, at the rate of the window. Where next to no queue was seen for long there was no rival: the losses
// were random ones, and no reason for more than one reduction.
func (c *Controller) resign(t instant) {
	rate := c.window / max(c.delay.smoothed, 1).Seconds()
	if c.vacated >= vacantRounds {
		rate = max(rate, multiplicative*c.kept)
	}
	c.rival = t
	c.rates.set(c.filling, min(c.rates.value(), rate))
	c.enter(Cruise, t)
}

// alone reports that nobody seems to fill the queue any more.
func (c *Controller) alone(t instant) bool {
	return c.standing < c.delay.target()/2 && (c.vacated >= vacantRounds && !c.isBurnt(t) || t-c.since >= c.dwell || !c.delay.short())
}

// isBurnt reports that a start has lately met losses in place of a queue, as behind a policer. There a look finds more rate
// than the path has, as long as the policer's bucket lasts, and an empty queue says nothing.
func (c *Controller) isBurnt(t instant) bool { return c.burnt > 0 && t-c.burnt < minimumLife }

// halve answers a loss epoch.
func (c *Controller) halve(t instant) {
	c.remember(t)
	c.window = max(c.window*multiplicative, leastCompete*float64(c.cfg.Packet))
	c.cut = t
}
