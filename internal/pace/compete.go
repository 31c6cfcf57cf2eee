package pace

import "time"

const (
	// vacantRounds is how many rounds in a row must have next to no queue while we compete to show
	// that we are alone.
	vacantRounds = 8

	// Losses with next to no queue count as random if there were at least plentyPackets packets,
	// and either less than faintLoss of them was lost or our window had sunk below sunkPart of what
	// it was before the queue.
	//
	// plentyPackets is more than any of sixteen controllers sends when they share a queue too short
	// to tell from jitter. Otherwise they would take the losses that they cause each other for
	// random ones.
	plentyPackets, faintLoss, sunkPart = 80, 0.02, 0.25

	// rareLoss is the share of random loss up to which we blame a loss over a deep queue on a
	// competitor. Where losses are more common, random losses may just meet a deep queue of our
	// own: at 2 Mbit/s and 2 % loss, a transfer that is alone loses a packet that way every ten
	// round trips, and would compete with itself forever.
	rareLoss = 0.005

	// minDwell is how long the losses of a short queue keep us in Compete at first. We can't go by
	// the queue itself, since it's empty most of the time even if others fill it.
	//
	// Over a short path it's dwellTrips round trips instead, because windows recover by the round
	// trip, and minDwell may be hundreds of them. It doubles whenever the losses come back, up to
	// maxDoublings times.
	minDwell, dwellTrips, maxDoublings = 2 * time.Second, 40, 4

	// othersLife is how long we remember a competitor that made us yield. It must be longer than
	// the time between two losses of CUBIC, which is 4 to 10 s on a home link.
	othersLife = 30 * time.Second

	// outgrownFactor is how far the rate must grow after a start to rule out a policer, whose
	// bucket may pass twice its rate for a few looks.
	outgrownFactor = 4

	// additive (in packets per round) and multiplicative make our AIMD as fast as New Reno's 1
	// and 0.5 (RFC 9438, section 4.3), and slower than quic-go's 1 and 0.7. Growth has to be
	// additive: flows that grow in proportion to their windows never become equal.
	additive, multiplicative = 0.53, 0.7

	// minCompeteWindow is the smallest window in Compete, in packets. With four, 16 flows would
	// lose 15 % without any other traffic.
	minCompeteWindow = 2
)

// A competition is the state of Compete, and what the other states know about competitors.
type competition struct {
	window float64 // bytes that may be in flight
	cut    instant // when it was last cut or Compete began; answers the losses of earlier packets

	began       instant       // when Compete was last entered
	interrupted bool          // a Dip interrupts Compete
	emptyRounds int           // rounds in a row with next to no queue
	emptyFates  tally         // fates that became known in them
	dwell       time.Duration // minimum stay over a short queue
	sharing     sharing       // for a path that drops packets instead of queueing them

	// Signs of competitors; 0 = never.
	seen         instant       // when we last suspected one
	lossAnswered instant       // when we last slowed down for a full queue without competing
	yielded      instant       // when a loss last made us yield to a competitor
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

// compete enters Compete. The window covers the round trip, including the queue, at the rate that
// we had before the queue began to stand.
func (c *Controller) compete(t instant) {
	shortest := min(minDwell, dwellTrips*c.delay.base())
	c.competition.dwell = max(shortest, min(2*c.competition.dwell, shortest<<maxDoublings))
	if c.competition.seen == 0 || t-c.competition.seen > minimumLife {
		c.competition.dwell = shortest
	}
	if c.dips.compete(t, c.delay.base()) {
		// A rival took what a common Dip freed, so use our rate from before the Dip.
		c.queueing.rateBefore = max(c.queueing.rateBefore, c.dips.rate)
	}
	c.competition.seen = t
	c.competition.began = t
	c.competition.window = max(c.queueing.rateBefore*c.delay.smoothed.Seconds(), c.minWindowBytes())
	c.competition.cut = t
	c.flood.begin(&c.round)
	c.enter(Compete, t)
}

// stepCompete does congestion avoidance as New Reno does (RFC 5681, section 3.1), until we seem to
// be alone.
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
		c.restartOnLongerPath(t)
	case ended && c.rounds <= longerRounds && c.queueing.unmoved.rounds > 1:
		// What seems to be a queue may be a longer path. Don't grow until we know, because on a
		// slow path one more packet per round would make a longer path look like a queue.
	case ended:
		c.competition.window += additive * float64(c.cfg.Packet)
	}
}

// cutWindow shrinks the window. This answers all losses of packets sent so far.
func (c *Controller) cutWindow(t instant) {
	c.saveUndo(t, 1)
	k := &c.competition
	k.window = max(k.window*k.remaining(c.delay.smoothed, c.fastest), minCompeteWindow*float64(c.cfg.Packet))
	k.cut = t
	k.sharing.wasCut = true
}

// remaining returns the part of the window that remains after a loss. trip is the length of a round
// trip, and fastest the highest rate that we ever had on the path. While sharing, the first cut
// answers the losses that showed what kind of path it is, so it is always a half.
func (k *competition) remaining(trip time.Duration, fastest float64) float64 {
	switch {
	case !k.sharing.on:
		return multiplicative
	case k.sharing.wasCut && ownsPath(k.rate(trip), fastest):
		return aloneMultiplicative
	}
	return sharingMultiplicative
}

// resign leaves Compete, at the rate of the window.
func (c *Controller) resign(t instant) {
	window := c.competition.rate(c.delay.smoothed)
	rate := min(window, c.rates.value())
	if c.competition.emptyRounds >= vacantRounds {
		// There was no competitor, so the losses were random. They justify no more than one cut,
		// and show how much random loss is usual on this path.
		rate = max(rate, multiplicative*c.queueing.rateBefore)
		fates := c.competition.emptyFates
		random := fates.share() < faintLoss || window < sunkPart*c.queueing.rateBefore
		if random && fates.count() > plentyPackets {
			c.congestion.relearn(t, fates)
		}
	}
	c.competition.seen = t
	c.rates.set(c.filling, rate)
	c.enter(Cruise, t)
}

// alone reports whether no other flow seems to fill the queue.
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

// othersYield reports whether there are others that yield too, so that the queue may be empty for a
// moment whenever all of us answer a loss. This is the case if a loss made us yield recently and
// the queue was no deeper than two bandwidth-delay products, because flows that halve their windows
// twice then leave no more in flight than the path holds.
//
// If we took such moments for the end of the competition, we would get only a quarter of the link
// beside the kernel's CUBIC.
func (c *Controller) othersYield(t instant) bool {
	k := &c.competition
	return k.yielded > 0 && t-k.yielded < othersLife && k.yieldDepth <= 2*c.delay.base()
}

// startDroppedLately reports whether a start recently met losses without a queue, as it would
// behind a policer. Looks then find more than the path's rate until the policer's bucket is empty,
// and the absence of a queue means nothing.
//
// A rate that has grown a lot since then rules out a policer, so the losses must be those of an
// outage.
func (c *Controller) startDroppedLately(t instant) bool {
	return c.start.dropped > 0 && t-c.start.dropped < minimumLife && c.Estimate() < outgrownFactor*c.start.left
}
