package pace

const (
	// leastSteer and mostSteer bound the correction of the queue while cruising.
	leastSteer, mostSteer = 0.75, 1.25
	// idleRounds is how many rounds without a queue, while cruising steers for
	// one, show that somebody has left the path: then a look need not wait.
	idleRounds = 1
	// deluge is a share of loss that a policer causes at a start, and that bad
	// conditions hardly ever do.
	deluge = 0.25
)

// stepCruise watches for a queue that stands, and looks for more rate now and then.
// A competitor who was here lately seems to be back if a queue above the target
// stands. The queue of our own look is not the competitor's, nor is the lower one
// to which cruising steers where play takes a part of the path: a controller that
// took these for a competitor's competed with itself again and again.
func (c *Controller) stepCruise(t instant, b batch, ended bool) {
	target := c.delay.target()
	switch {
	case c.competition.lately(t) && c.queueing.rounds >= drainRounds && c.look.until == 0 && c.queue > target:
		c.compete(t)
	case !c.look.drops(c.competition.lately(t)) && (b.full || c.flooded()):
		c.answerLoss(t)
	case c.queue > 2*target, ended && c.round.leastQueue > target, c.queue > target && c.excess(b):
		switch {
		case c.round.leastQueue <= target, c.round.scatters():
		case ended:
			c.trim()
		default:
			c.trimIfSteady()
		}
		c.enter(Drain, t)
	case t-c.delay.nearLeast > minimumLife/2, c.delay.doubtful:
		c.enter(Dip, t)
	case ended && c.wantsYield(t):
		c.beginYield(t)
	case ended && (c.rounds >= c.looks.pause || c.hasRoom()) && !c.lacksData():
		c.open(t, false)
	}
}

// answerLoss answers losses of a full queue that no look of ours has caused.
// The first time our aim may have been too deep for a short queue, so it only
// drains. If the losses return soon, somebody else fills the queue.
func (c *Controller) answerLoss(t instant) {
	c.remember(t, 1)
	if !c.flooded() && (c.competition.lossAnswered == 0 || t-c.competition.lossAnswered > minimumLife/2) {
		c.competition.lossAnswered = t
		c.trimIfSteady()
		c.enter(Drain, t)
		return
	}
	if c.queueing.rateBefore = c.Estimate(); c.recent > 0 {
		c.queueing.rateBefore = min(c.recent, c.queueing.rateBefore)
	}
	dropped := c.dropsForQueueing()
	c.compete(t)
	if dropped {
		c.beginSharing(t, true)
	}
	c.cutWindow(t)
}

// flooded reports whether more was lost than any random loss explains, whatever the queue: of
// the packets decided in this round, and also of those sent in the same round as the newest
// lost one. The first alone is not enough, because a round may begin with two losses. Among
// many controllers a round has too few packets to show anything; then the last packets count.
func (c *Controller) flooded() bool {
	return c.round.fates.floods() && c.round.sentIn(c.lostRound).floods() || c.flood.shows()
}

// dropsForQueueing reports whether the path drops instead of queueing: no queue
// was seen, and more than a quarter of the packets was lost.
func (c *Controller) dropsForQueueing() bool {
	round := c.round.fates
	drops := round.count() >= trainPackets && round.share() > deluge || c.flood.shows() && c.flood.fates.share() > deluge
	return drops && c.congestion.deepest.isShallow(c.sight())
}

// excess reports whether a batch has losses, and its round more of them than random loss explains.
func (c *Controller) excess(b batch) bool { return b.lost > 0 && c.round.fates.above(c.usual()) }

// hasRoom reports whether the bottleneck seems to have room: it has no queue although we
// steer for one. If a look has found nothing all the same, because the path drops or the
// sender is too slow, the next look waits for its time, unless a spell of losses has since
// taken more than half of the rate. Without that exception, where three of five packets were
// lost for 100 ms of each second, no look's time came, and a tenth of 50 Mbit/s was used.
func (c *Controller) hasRoom() bool {
	vain := (c.looks.inVain || c.looks.shallow) && c.Estimate() >= c.look.from/2
	return c.rounds > idleRounds && c.queueing.quietRounds >= idleRounds && c.look.until == 0 && !vain
}
