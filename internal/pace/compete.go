package pace

import "time"

const (
	// vacantRounds is the number of consecutive rounds with next to no queue, while
	// competing, that show that nobody else is there.
	vacantRounds = 8
	// plentyPackets is the minimum number of packets that met next to no queue for their
	// losses to count as random. The losses must also be below faintLoss, or our window
	// must have sunk below sunkPart of what it was before the queue.
	//
	// On a queue too short to be told from jitter, sixteen controllers send fewer packets
	// than plentyPackets. Otherwise they would take the losses that they cause each other
	// for random.
	plentyPackets, faintLoss, sunkPart = 80, 0.02, 0.25
	// rareLoss is the share of random loss below which a loss over a deep queue is attributed
	// to a competitor. At 2 Mbit/s and 2 % loss, a transfer that is alone loses a packet
	// over its own queue every ten round trips, and would compete with itself forever.
	rareLoss = 0.005
	// minDwell is the time for which losses of a short queue first keep the controller in
	// Compete. Such a queue is empty most of the time although others fill it.
	//
	// It is dwellTrips round trips if those are shorter, because windows recover by the
	// round trip: 2 s are 600 round trips of 3 ms. The time doubles whenever the losses
	// return, at most maxDoublings times.
	minDwell, dwellTrips, maxDoublings = 2 * time.Second, 40, 4
	// othersLife is the time for which a competitor counts after it made us yield.
	// CUBIC's windows on a home link take 4 to 10 s from one loss to the next.
	othersLife = 30 * time.Second
	// outgrownFactor is the factor by which the rate must have grown since a start to
	// show that the path has no policer. A policer's bucket may pass twice its rate for
	// some looks.
	outgrownFactor = 4
	// additive (in packets per round) and multiplicative make AIMD as fast as New Reno's
	// 1 and 0.5 (RFC 9438, section 4.3), and slower than quic-go's 1 and 0.7. The growth
	// is additive because flows that grow in proportion to their windows never become
	// equal.
	additive, multiplicative = 0.53, 0.7
	// minCompeteWindow is the minimum window in Compete, in packets. 16 flows of four
	// packets would lose 15 % by themselves.
	minCompeteWindow = 2
)

// A competition is the state of Compete, and what the other states know about
// competitors.
type competition struct {
	window float64 // bytes that may be in flight
	// When the window was last cut, or competing began. Losses of packets sent before
	// then are of the same epoch.
	cut         instant
	emptyRounds int           // consecutive rounds with next to no queue
	emptyFates  tally         // fates of the packets decided in these rounds
	interrupted bool          // a Dip interrupted it
	began       instant       // when Compete was last entered
	sharing     sharing       // state on a path that drops instead of queueing
	dwell       time.Duration // minimum duration on a short queue

	seen instant // when a competitor was last suspected; 0 = never
	// When losses of a full queue were last answered without competing; 0 = never.
	lossAnswered instant
	yielded      instant       // when a loss last made us yield to a competitor; 0 = never
	yieldDepth   time.Duration // depth of the queue that dropped the packet
}

// rate returns the rate at which one window is sent in each round trip.
func (k *competition) rate(trip time.Duration) float64 { return k.window / max(trip, 1).Seconds() }

// gain returns the ratio of the pacing rate to one window per round trip.
func (k *competition) gain() float64 {
	if k.sharing.on {
		return sharingGain
	}
	return lookGain
}

// lately reports whether there recently seemed to be a competitor.
func (k *competition) lately(t instant) bool { return k.seen > 0 && t-k.seen < minimumLife }

// compete enters Compete. The window spans the round trip with the queue, at the rate
// from before the queue stood, or from before a common Dip that a rival exploited.
func (c *Controller) compete(t instant) {
	shortest := min(minDwell, dwellTrips*c.delay.base())
	c.competition.dwell = max(shortest, min(2*c.competition.dwell, shortest<<maxDoublings))
	if c.competition.seen == 0 || t-c.competition.seen > minimumLife {
		c.competition.dwell = shortest
	}
	if c.dips.compete(t, c.delay.base()) { // a rival took the part that a common Dip had freed
		c.queueing.rateBefore = max(c.queueing.rateBefore, c.dips.rate)
	}
	c.competition.seen = t
	c.competition.began = t
	c.competition.window = max(c.queueing.rateBefore*c.delay.smoothed.Seconds(), c.minWindowBytes())
	c.competition.cut = t
	c.flood.begin(&c.round)
	c.enter(Compete, t)
}

// stepCompete is congestion avoidance as in New Reno (RFC 5681, section 3.1), until
// nobody else seems to be there.
func (c *Controller) stepCompete(t instant, b batch, ended bool) {
	switch {
	case c.competition.sharing.on:
		c.stepShare(t, b, ended)
	case b.sinceCut && (b.full || c.flooded() || c.queue > c.delay.target()):
		c.competition.seen = t
		// A loss on a path with more random loss may be no competitor's.
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
		// The queue may be a longer path. That shows only while the window does not grow:
		// on a slow path one more packet in each round moves the queue.
	case ended:
		c.competition.window += additive * float64(c.cfg.Packet)
	}
}

// cutWindow multiplies the window by multiplicative, in response to all losses of one
// epoch.
func (c *Controller) cutWindow(t instant) {
	c.saveUndo(t, 1)
	c.competition.window = max(c.competition.window*multiplicative, minCompeteWindow*float64(c.cfg.Packet))
	c.competition.cut = t
}

// resign leaves Compete at the rate of the window.
//
// If next to no queue was seen for long, there was no competitor and the losses were
// random. Then they justify one reduction at most, and they show the usual share of
// random loss.
func (c *Controller) resign(t instant) {
	window := c.competition.rate(c.delay.smoothed)
	rate := min(window, c.rates.value())
	if c.competition.emptyRounds >= vacantRounds {
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

// alone reports whether nobody else seems to fill the queue any more.
func (c *Controller) alone(t instant) bool {
	gone := c.round.minQueue < c.delay.target()/2
	switch {
	case c.flood.shows():
		return false
	case c.delay.short():
		vacant := c.competition.emptyRounds >= vacantRounds && !c.startDroppedLately(t)
		return gone && (vacant || t-c.since >= c.competition.dwell)
	case c.othersYield(t):
		return c.competition.emptyRounds >= vacantRounds
	}
	return gone
}

// othersYield reports whether losses recently made us yield to others over a queue that
// may be empty for a moment whenever all flows answer a loss. Flows that halve their
// windows twice leave exactly the capacity of a path whose queue is two products deep.
//
// A controller that takes such a moment for the end of the competition gets a quarter of
// the link beside the kernel's CUBIC.
func (c *Controller) othersYield(t instant) bool {
	k := &c.competition
	return k.yielded > 0 && t-k.yielded < othersLife && k.yieldDepth <= 2*c.delay.base()
}

// startDroppedLately reports whether a start recently met losses without a queue, as on a
// path with a policer. While the policer's bucket lasts, a look there finds more rate
// than the path has, and an empty queue means nothing.
//
// But if the rate has grown much since then, the path has no policer: the losses of the
// start were those of an outage.
func (c *Controller) startDroppedLately(t instant) bool {
	return c.start.dropped > 0 && t-c.start.dropped < minimumLife && c.Estimate() < outgrownFactor*c.start.left
}
