package pace

const (
	// minSteer and maxSteer bound the gain with which we correct the queue while cruising.
	minSteer, maxSteer = 0.75, 1.25

	// If there has been no queue for more than idleRounds rounds although we steer for one,
	// somebody has left the path, and the next look needn't wait.
	idleRounds = 1

	// delugeLoss is a share of losses that a policer causes at a start, and a bad path hardly
	// ever does.
	delugeLoss = 0.25
)

// stepCruise keeps the queue short, and looks for more rate from time to time.
func (c *Controller) stepCruise(t instant, b batch, ended bool) {
	target := c.delay.target()
	switch {
	case c.competition.lately(t) && c.queueing.rounds >= drainRounds && c.look.until == 0 && c.queue > target:
		// A recent competitor is back. The queue is neither our look's nor the shorter one that
		// we steer for where play takes a part of the path; without these conditions, we would
		// compete with ourselves again and again.
		c.compete(t)
	case !c.look.drops(c.competition.lately(t)) && (b.full || c.flooded()):
		c.answerLoss(t)
	case c.queue > 2*target, ended && c.round.minQueue > target, c.queue > target && c.excess(b):
		switch {
		case c.round.minQueue <= target, c.round.scatters():
			// Not all of the round's packets met the queue, so the estimate may be right.
		case ended:
			c.trim()
		default:
			c.trimIfSteady()
		}
		c.enter(Drain, t)
	case t-c.delay.nearFloor > minimumLife/2, c.delay.doubtful:
		// The minimum delay may include a queue. Measure it.
		c.enter(Dip, t)
	case ended && c.checkYield(t):
		c.beginYield(t)
	case ended && (c.rounds >= c.looks.pause || c.hasRoom()) && !c.lacksData():
		c.openLook(t)
	}
}

// answerLoss answers losses of a full queue that no look of ours has caused.
func (c *Controller) answerLoss(t instant) {
	c.saveUndo(t, 1)
	k := &c.competition
	if !c.flooded() && (k.lossAnswered == 0 || t-k.lossAnswered > minimumLife/2) {
		// Perhaps we aimed too high for a short queue, so just drain it for once.
		k.lossAnswered = t
		c.trimIfSteady()
		c.enter(Drain, t)
		return
	}
	// It happened again. Somebody else must be filling the queue.
	c.queueing.rateBefore = c.Estimate()
	if c.recent > 0 {
		c.queueing.rateBefore = min(c.recent, c.queueing.rateBefore)
	}
	dropped := c.dropsInsteadOfQueueing()
	c.compete(t)
	if dropped {
		c.beginSharing(t)
		c.competition.sharing.byFlood = true
	}
	c.cutWindow(t)
}

// flooded reports whether more was lost than any random loss explains, whatever the queue.
func (c *Controller) flooded() bool {
	// The fates of this round may begin with two losses, so look also at the packets sent in the
	// same round as the newest lost one. Among many controllers a round has too few packets, and
	// only several rounds together show a flood.
	return c.round.fates.floods() && c.round.sentIn(c.lostRound).floods() || c.flood.shows()
}

// dropsInsteadOfQueueing reports whether the path seems to drop packets instead of queueing them:
// more than a quarter of them is lost, and there's no queue.
func (c *Controller) dropsInsteadOfQueueing() bool {
	round := c.round.fates
	drops := round.count() >= trainPackets && round.share() > delugeLoss ||
		c.flood.shows() && c.flood.fates.share() > delugeLoss
	return drops && c.congestion.deepest.isShallow(c.sight())
}

// excess reports whether a batch has losses, and its round more of them than random loss explains.
func (c *Controller) excess(b batch) bool { return b.lost > 0 && c.round.fates.above(c.usual()) }

// hasRoom reports whether the bottleneck seems to have room, because there's no queue although we
// steer for one.
func (c *Controller) hasRoom() bool {
	// If a look has found nothing in spite of that, the path drops packets or the sender is too
	// slow, and the next look should wait for its time. That changes when a spell of losses has
	// taken half of our rate since: where three of five packets were lost for 100 ms of each
	// second, no look's time ever came, and we used a tenth of 50 Mbit/s.
	vain := (c.looks.inVain || c.looks.shallow) && c.Estimate() >= c.look.from/2
	return c.rounds > idleRounds && c.queueing.quietRounds >= idleRounds && c.look.until == 0 && !vain
}
