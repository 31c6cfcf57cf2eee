package pace

const (
	// minSteer and maxSteer bound the gain by which cruising corrects the queue.
	minSteer, maxSteer = 0.75, 1.25
	// idleRounds is the number of rounds without a queue, while cruising steers for one,
	// that show that somebody has left the path. Then a look need not wait.
	idleRounds = 1
	// delugeLoss is a share of loss that a policer causes at a start, and that a bad path
	// hardly ever does.
	delugeLoss = 0.25
)

// stepCruise watches for a standing queue, and looks for more rate from time to time.
//
// If a queue above the target stands, a recent competitor seems to be back. The queue of
// our own look is not the competitor's. Nor is the lower queue that cruising steers for
// where play takes a part of the path. A controller that took these for a competitor's
// competed with itself again and again.
func (c *Controller) stepCruise(t instant, b batch, ended bool) {
	target := c.delay.target()
	switch {
	case c.competition.lately(t) && c.queueing.rounds >= drainRounds && c.look.until == 0 && c.queue > target:
		c.compete(t)
	case !c.look.drops(c.competition.lately(t)) && (b.full || c.flooded()):
		c.answerLoss(t)
	case c.queue > 2*target, ended && c.round.minQueue > target, c.queue > target && c.excess(b):
		switch {
		case c.round.minQueue <= target, c.round.scatters():
		case ended:
			c.trim()
		default:
			c.trimIfSteady()
		}
		c.enter(Drain, t)
	case t-c.delay.nearFloor > minimumLife/2, c.delay.doubtful:
		c.enter(Dip, t)
	case ended && c.wantsYield(t):
		c.beginYield(t)
	case ended && (c.rounds >= c.looks.pause || c.hasRoom()) && !c.lacksData():
		c.openLook(t, false)
	}
}

// answerLoss responds to losses of a full queue that no look of ours caused. The first
// time, our aim may have been too deep for a short queue, so the controller only drains.
// If the losses return soon, somebody else fills the queue.
func (c *Controller) answerLoss(t instant) {
	c.saveUndo(t, 1)
	if !c.flooded() && (c.competition.lossAnswered == 0 || t-c.competition.lossAnswered > minimumLife/2) {
		c.competition.lossAnswered = t
		c.trimIfSteady()
		c.enter(Drain, t)
		return
	}
	c.queueing.rateBefore = c.Estimate()
	if c.recent > 0 {
		c.queueing.rateBefore = min(c.recent, c.queueing.rateBefore)
	}
	dropped := c.dropsInsteadOfQueueing()
	c.compete(t)
	if dropped {
		c.beginSharing(t, true)
	}
	c.cutWindow(t)
}

// flooded reports whether more was lost than any random loss explains, whatever the
// queue.
//
// It checks the packets decided in this round, and those sent in the same round as the
// newest lost packet. The first check alone is not enough, because a round may begin with
// two losses. Among many controllers a round has too few packets to show anything. Then
// the last packets of several rounds count.
func (c *Controller) flooded() bool {
	return c.round.fates.floods() && c.round.sentIn(c.lostRound).floods() || c.flood.shows()
}

// dropsInsteadOfQueueing reports whether the path drops instead of queueing: no queue was seen,
// and more than a quarter of the packets was lost.
func (c *Controller) dropsInsteadOfQueueing() bool {
	round := c.round.fates
	drops := round.count() >= trainPackets && round.share() > delugeLoss ||
		c.flood.shows() && c.flood.fates.share() > delugeLoss
	return drops && c.congestion.deepest.isShallow(c.sight())
}

// excess reports whether a batch has losses and its round has more of them than random
// loss explains.
func (c *Controller) excess(b batch) bool { return b.lost > 0 && c.round.fates.above(c.usual()) }

// hasRoom reports whether the bottleneck seems to have room: it has no queue although we
// steer for one.
//
// A look may have found nothing all the same, because the path drops or the sender is too
// slow. Then the next look waits for its time, unless a spell of losses has since taken
// more than half of the rate. Without that exception, where three of five packets were
// lost for 100 ms of each second, no look's time came, and a tenth of 50 Mbit/s was used.
func (c *Controller) hasRoom() bool {
	vain := (c.looks.inVain || c.looks.shallow) && c.Estimate() >= c.look.from/2
	return c.rounds > idleRounds && c.queueing.quietRounds >= idleRounds && c.look.until == 0 && !vain
}
