package pace

import "time"

const (
	// vacantRounds is how many rounds in succession must have next to no queue to show that
	// nobody else is there, although we compete.
	vacantRounds = 8

	// Losses while there was next to no queue count as random if there were plentyPackets
	// packets, and if either less than faintLoss of them was lost or our window had sunk below
	// sunkPart of what it was before the queue.
	//
	// When sixteen controllers share a queue too short to tell from jitter, none of them sends
	// plentyPackets. Otherwise they would take the losses that they cause each other for random.
	plentyPackets, faintLoss, sunkPart = 80, 0.02, 0.25

	// rareLoss is the share of random loss up to which we blame a loss over a deep queue on a
	// competitor. Where losses are more common, our own queue will do: at 2 Mbit/s and 2 % loss,
	// a transfer that is alone loses a packet over it every ten round trips, and would compete
	// with itself forever.
	rareLoss = 0.005

	// minDwell is how long losses of a short queue keep us in Compete at first. We can't go by
	// the queue there, since it's empty most of the time although others fill it.
	//
	// Over a short path it's dwellTrips round trips instead, because windows recover by the
	// round trip, and 2 s may be 600 of them. It doubles whenever the losses come back, at most
	// maxDoublings times.
	minDwell, dwellTrips, maxDoublings = 2 * time.Second, 40, 4

	// othersLife is how long we remember a competitor that made us yield. From one loss to the
	// next, CUBIC takes 4 to 10 s on a home link.
	othersLife = 30 * time.Second

	// outgrownFactor is how far the rate must have grown since a start to rule out a policer,
	// whose bucket may pass twice its rate for a few looks.
	outgrownFactor = 4

	// additive (in packets per round) and multiplicative make our AIMD as fast as New Reno's 1
	// and 0.5 (RFC 9438, section 4.3), and slower than quic-go's 1 and 0.7. Growth has to be
	// additive: flows that grow in proportion to their windows never become equal.
	additive, multiplicative = 0.53, 0.7

	// minCompeteWindow is the smallest window in Compete, in packets. With four, 16 flows would
	// lose 15 % all by themselves.
	minCompeteWindow = 2
)

// A competition is what Compete works with, and what the other states know about competitors.
type competition struct {
	window float64 // bytes that may be in flight
	cut    instant // when it was last cut, or Compete began; earlier packets' losses are answered

	began       instant       // when Compete was last entered
	interrupted bool          // by a Dip
	emptyRounds int           // rounds in succession with next to no queue
	emptyFates  tally         // fates that became known in those rounds
	dwell       time.Duration // how long to stay at least, over a short queue
	sharing     sharing       // used on a path that drops packets instead of queueing them

	// Signs of competitors; 0 = never.
	seen         instant       // when we last suspected one
	lossAnswered instant       // when we last slowed down for a full queue without competing
	yielded      instant       // when a loss last made us yield to one
	yieldDepth   time.Duration // how deep the queue was that dropped that packet
}

// rate returns the rate of a window per round trip.
func (k *competition) rate(trip time.Duration) float64 { return k.window / max(trip, 1).Seconds() }

// gain returns how much faster than a window per round trip we pace.
func (k *competition) gain() float64 {
	if k.sharing.on {
		return sharingGain
	}
	return lookGain
}

// lately reports whether we have recently suspected a competitor.
func (k *competition) lately(t instant) bool { return k.seen > 0 && t-k.seen < minimumLife }

// compete enters Compete. The window covers the round trip including the queue, at the rate we
// had before there was a standing queue.
func (c *Controller) compete(t instant) {
	shortest := min(minDwell, dwellTrips*c.delay.base())
	c.competition.dwell = max(shortest, min(2*c.competition.dwell, shortest<<maxDoublings))
	if c.competition.seen == 0 || t-c.competition.seen > minimumLife {
		c.competition.dwell = shortest
	}
	if c.dips.compete(t, c.delay.base()) {
		// A rival took what a common Dip had freed, so go by our rate before that.
		c.queueing.rateBefore = max(c.queueing.rateBefore, c.dips.rate)
	}
	c.competition.seen = t
	c.competition.began = t
	c.competition.window = max(c.queueing.rateBefore*c.delay.smoothed.Seconds(), c.minWindowBytes())
	c.competition.cut = t
	c.flood.begin(&c.round)
	c.enter(Compete, t)
}

// stepCompete does congestion avoidance as New Reno does (RFC 5681, section 3.1), until nobody
// else seems to be there.
func (c *Controller) stepCompete(t instant, b batch, ended bool) {
	switch {
	case c.competition.sharing.on:
		c.stepShare(t, b, ended)
	case b.sinceCut && (b.full || c.flooded() || c.queue > c.delay.target()):
		c.competition.seen = t
		if c.queue > 2*c.delay.target() && c.congestion.baseline.value < rareLoss {
			c.competition.yielded = t
			c.competition.yieldDepth = c.delay.depth
		}
		c.cutWindow(t)
	case ended && c.alone(t):
		c.resign(t)
	case ended && max(c.queueing.unmoved.rounds, c.queueing.both.rounds) >= longerRounds:
		c.goLonger(t)
	case ended && c.rounds <= longerRounds && c.queueing.unmoved.rounds > 1:
		// What seems to be a queue may be a path that has become longer. Don't grow until we
		// know, since on a slow path one more packet per round would make it look like a queue.
	case ended:
		c.competition.window += additive * float64(c.cfg.Packet)
	}
}

// cutWindow cuts the window by multiplicative. It answers all losses of packets sent so far.
func (c *Controller) cutWindow(t instant) {
	c.saveUndo(t, 1)
	c.competition.window = max(c.competition.window*multiplicative, minCompeteWindow*float64(c.cfg.Packet))
	c.competition.cut = t
}

// resign leaves Compete, at the rate of the window.
func (c *Controller) resign(t instant) {
	window := c.competition.rate(c.delay.smoothed)
	rate := min(window, c.rates.value())
	if c.competition.emptyRounds >= vacantRounds {
		// There has been no competitor, so the losses were random. They justify one cut at
		// most, and tell us how much random loss is usual here.
		rate = max(rate, multiplicative*c.queueing.rateBefore)
		left := c.competition.emptyFates
		random := left.share() < faintLoss || window < sunkPart*c.queueing.rateBefore
		if random && left.count() > plentyPackets {
			c.congestion.relearn(t, left)
		}
	}
	c.competition.seen = t
	c.rates.set(c.filling, rate)
	c.enter(Cruise, t)
}

// alone reports whether nobody else seems to be filling the queue.
func (c *Controller) alone(t instant) bool {
	gone := c.round.minQueue < c.delay.target()/2
	switch {
	case c.flood.shows():
		return false
	case c.delay.short():
		// The queue is empty most of the time even if there are others.
		vacant := c.competition.emptyRounds >= vacantRounds && !c.startDroppedLately(t)
		return gone && (vacant || t-c.since >= c.competition.dwell)
	case c.othersYield(t):
		return c.competition.emptyRounds >= vacantRounds
	}
	return gone
}

// othersYield reports whether there are others that yield too, so that the queue may be empty for
// a moment whenever all of us answer a loss. It goes by a loss that made us yield recently, over
// a queue of at most two products: flows that halve their windows twice then leave exactly what
// the path holds.
//
// When we took such moments for the end of the competition, we got a quarter of the link beside
// the kernel's CUBIC.
func (c *Controller) othersYield(t instant) bool {
	k := &c.competition
	return k.yielded > 0 && t-k.yielded < othersLife && k.yieldDepth <= 2*c.delay.base()
}

// startDroppedLately reports whether a start recently met losses without a queue, as it would
// behind a policer. There, looks find more than the path's rate until the policer's bucket is
// empty, and having no queue means nothing.
//
// A rate that has grown a lot since then rules out a policer. The losses must have been those of
// an outage.
func (c *Controller) startDroppedLately(t instant) bool {
	return c.start.dropped > 0 && t-c.start.dropped < minimumLife && c.Estimate() < outgrownFactor*c.start.left
}
