package pace

const (
	// leastSteer and mostSteer bound the correction of the queue while cruising.
	leastSteer, mostSteer = 0.75, 1.25
	// idleRounds without a queue, though cruising steers for one, mean that somebody has left: a look need not wait.
	idleRounds = 1
)

// stepCruise watches for a queue that stands, and looks for more rate now and then.
func (c *Controller) stepCruise(t instant, b batch, ended bool) {
	target := c.delay.target()
	switch {
	case c.competition.seen > 0 && t-c.competition.seen < minimumLife && c.queueRounds >= drainRounds:
		c.compete(t)
	case c.look.until == 0 && (b.full || c.flooded()):
		c.answerLoss(t)
	case c.queue > 2*target, ended && c.round.leastQueue > target, c.queue > target && c.excess(b):
		switch {
		case c.round.leastQueue <= target:
		case ended:
			c.trim()
		default:
			c.trimIfSteady()
		}
		c.enter(Drain, t)
	case t-c.delay.nearLeast > minimumLife/2:
		c.enter(Dip, t)
	case ended && (c.rounds >= c.pause || c.hasRoom()) && c.delivery.limited <= c.delivery.total:
		c.open(t, false)
	}
}

// answerLoss answers losses of a full queue that no look of ours explains. The first time the aim may have been too deep for
// a queue that short; the next time somebody else fills it.
func (c *Controller) answerLoss(t instant) {
	c.remember(t)
	if !c.flooded() && (c.competition.lossAnswered == 0 || t-c.competition.lossAnswered > minimumLife/2) {
		c.competition.lossAnswered = t
		c.trimIfSteady()
		c.enter(Drain, t)
		return
	}
	if c.rateBeforeQueue = c.Estimate(); c.recent > 0 {
		c.rateBeforeQueue = min(c.recent, c.rateBeforeQueue)
	}
	c.compete(t)
	c.halve(t)
}

// flooded reports that more was lost than any random loss explains, whatever the queue: of all that this round has heard of, and of the
// packets that left in the same round as the one lost last. A round may hear of two losses before it hears of anything that arrived.
func (c *Controller) flooded() bool {
	return c.round.fates.floods() && c.round.sentIn(c.lostRound).floods()
}

// excess tells whether more was just lost than random loss explains.
func (c *Controller) excess(b batch) bool { return b.lost > 0 && c.round.fates.above(c.usual()) }

// hasRoom tells whether the bottleneck has room: it stays without a queue though we steer for one. A look that found none
// all the same, for the path drops or the sender is too slow, is not repeated before its time.
func (c *Controller) hasRoom() bool {
	return c.rounds > idleRounds && c.quietRounds >= idleRounds && c.look.until == 0 && !c.lookedInVain && !c.shallow
}
