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
	case c.rival > 0 && t-c.rival < minimumLife && c.stays >= drainRounds:
		c.compete(t)
	case c.look.until == 0 && (b.full || c.flooded()):
		c.answerLoss(t)
	case c.queue > 2*target, ended && c.standing > target, c.queue > target && c.excess(b):
		switch {
		case c.standing <= target:
		case ended:
			c.trim()
		default:
			c.trimIfSteady()
		}
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
	if !c.flooded() && (c.lossAnswered == 0 || t-c.lossAnswered > minimumLife/2) {
		c.lossAnswered = t
		c.trimIfSteady()
		c.enter(Drain, t)
		return
	}
	if c.rateBefore = c.recent; c.rateBefore == 0 {
		c.rateBefore = c.Estimate()
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
