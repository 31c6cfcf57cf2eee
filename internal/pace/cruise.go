package pace

const (
	// minSteer and maxSteer bound the gain with which we correct the queue while cruising.
	minSteer, maxSteer = 0.75, 1.25

	// If there has been no queue for more than idleRounds rounds although we aim for one, another
	// flow has left the path, and the next look needn't wait.
	idleRounds = 1

	// delugeLoss is a share of losses that a policer causes at a start, but a bad path hardly ever
	// does.
	delugeLoss = 0.25
)

// stepCruise reacts to queues and losses, and tries a higher rate from time to time.
func (c *Controller) stepCruise(t instant, b batch, ended bool) {
	target := c.delay.target()
	excess := b.lost > 0 && c.round.fates.above(c.usual()) // more than random loss explains
	switch {
	case c.competition.lately(t) && c.queueing.rounds >= drainRounds && !c.look.open() && c.queue > target:
		// A recent competitor is back. The conditions exclude the queue of a look, and the shorter
		// one that remains where play takes a part of the path, because otherwise we would compete
		// with ourselves again and again.
		c.compete(t)
	case !c.look.causesDrops(c.competition.lately(t)) && (b.full || c.flooded()):
		c.answerLoss(t)
	case b.newest.sent < c.queueing.outdated:
		// Its queue says nothing about the rate.
	case c.queue > 2*target, ended && c.round.minQueue > target, c.queue > target && excess:
		switch {
		case c.round.minQueue <= target, c.round.scatters():
			// Some of the round's packets didn't meet the queue, so the estimate may be right.
		case ended:
			c.trim()
		default:
			c.trimIfSteady()
		}
		c.enter(Drain, t)
	case t-c.delay.nearFloor > minimumLife/2, c.delay.doubtful:
		// The minimum delay may include a queue, so measure it again.
		c.enter(Dip, t)
	case ended && c.checkBlame(t):
		c.enterSharing(t)
	case ended && (c.rounds >= c.looks.pause || c.hasRoom()) && !c.lacksData():
		c.openLook(t)
	}
}

// answerLoss answers losses of a full queue that no look of ours caused.
func (c *Controller) answerLoss(t instant) {
	c.saveUndo(t, 1)
	k := &c.competition
	if !c.flooded() && (k.lossAnswered == 0 || t-k.lossAnswered > minimumLife/2) {
		// We may have aimed too high for a short queue, so just drain it this time.
		k.lossAnswered = t
		c.trimIfSteady()
		c.enter(Drain, t)
		return
	}
	// It happened again, so another flow must be filling the queue.
	c.queueing.rateBefore = c.Estimate()
	if c.recent > 0 {
		c.queueing.rateBefore = min(c.recent, c.queueing.rateBefore)
	}
	drops := c.dropsInsteadOfQueueing()
	c.compete(t)
	if drops {
		c.beginSharing(t)
		c.competition.sharing.byFlood = true
	}
	c.cutWindow(t)
}

// flooded reports whether more was lost than any random loss explains, whatever the queue.
func (c *Controller) flooded() bool {
	// The fates of a round may happen to begin with two losses, so check also the packets sent in
	// the same round as the newest lost one. When many controllers share the path, a round has too
	// few packets, and only several rounds together show a flood.
	return c.round.fates.floods() && c.round.sentIn(c.lostRound).floods() || c.flood.shows()
}

// dropsInsteadOfQueueing reports whether the path seems to drop packets instead of queueing them,
// because more than delugeLoss of them are lost without a queue.
func (c *Controller) dropsInsteadOfQueueing() bool {
	round := c.round.fates
	drops := round.count() >= trainPackets && round.share() > delugeLoss ||
		c.flood.shows() && c.flood.fates.share() > delugeLoss
	return drops && c.congestion.deepest.isShallow(c.sight())
}

// hasRoom reports whether the bottleneck seems to have room, because there's no queue although we
// aim for one.
func (c *Controller) hasRoom() bool {
	// If a look found nothing nevertheless, the path drops packets or the sender is too slow, and
	// the next look should wait until it is due. The exception is when losses have halved our rate
	// since that look: on a path that loses three of five packets for 100 ms of each second, looks
	// would never become due, and we would use a tenth of 50 Mbit/s.
	vain := (c.looks.inVain || c.looks.shallow) && c.Estimate() >= c.look.from/2
	return c.rounds > idleRounds && c.queueing.quietRounds >= idleRounds && !c.look.open() && !vain
}
