package pace

import "time"

const (
	// vacantRounds is how many rounds in a row with next to no queue, while
	// competing, show that nobody else is there.
	vacantRounds = 8
	// plenty is how many packets must have met next to no queue for their losses
	// to count as random. The losses must also be below faint, or our window must
	// have sunk below the part sunk of what it was. Sixteen controllers on a
	// queue too short to be told from jitter send fewer packets than plenty;
	// otherwise they would take the losses that they cause each other for random.
	plenty, faint, sunk = 80, 0.02, 0.25
	// rare is the share of random loss below which a loss over a deep queue is attributed
	// to a competitor. At 2 Mbit/s and 2 %, a transfer that is alone meets a loss over a
	// queue of its own every ten round trips, and would compete with itself forever.
	rare = 0.005
	// leastDwell is how long losses of a short queue keep the controller in Compete at first:
	// such a queue is empty most of the time, although others fill it. It is dwellTrips round
	// trips if those are shorter, because windows recover by the round trip: 2 s are 600 round
	// trips of 3 ms. It doubles each time the losses return, at most mostDoublings times.
	leastDwell, dwellTrips, mostDoublings = 2 * time.Second, 40, 4
	// othersLife is how long a competitor counts after it has made us yield:
	// CUBIC's windows on a home link take 4 to 10 s from one loss to the next.
	othersLife = 30 * time.Second
	// outgrown is how many times the rate that a start has left must have grown to show that
	// the path has no policer. A policer's bucket may pass twice its rate for some looks.
	outgrown = 4
	// additive (in packets a round) and multiplicative make AIMD as fast as New Reno's 1
	// and 0.5 (RFC 9438, section 4.3), and slower than quic-go's 1 and 0.7. The growth is
	// additive because flows that grow in proportion to their windows never become equal.
	additive, multiplicative = 0.53, 0.7
	// leastCompete is the least window in Compete, in packets: 16 flows of four
	// packets would lose 15 % by themselves.
	leastCompete = 2
)

// A competition is the state of Compete, and what the other states know about competitors.
type competition struct {
	window float64 // bytes that may be in flight
	// When the window was last cut, or competing began; losses of packets sent
	// before are of the same epoch.
	cut         instant
	emptyRounds int           // rounds in a row with next to no queue
	emptyFates  tally         // fates of the packets decided in these rounds
	interrupted bool          // a Dip has interrupted it
	began       instant       // when Compete was last entered
	sharing     sharing       // its state on a path that drops instead of queueing
	dwell       time.Duration // how long it lasts at least on a short queue

	seen         instant       // when there last seemed to be a competitor; 0 = never
	lossAnswered instant       // when losses of a full queue were last answered without competing; 0 = never
	yielded      instant       // when a loss last made us yield to a competitor; 0 = never
	yieldDepth   time.Duration // depth of the queue that dropped the packet
}

// gain returns the factor by which packets are sent faster than a window in each round trip.
func (k *competition) gain() float64 {
	if k.sharing.on {
		return sharingGain
	}
	return lookGain
}

// lately reports whether there lately seemed to be a competitor.
func (k *competition) lately(t instant) bool { return k.seen > 0 && t-k.seen < minimumLife }

// compete enters Compete. The window is for the rate from before the queue stood, or from
// before a common Dip that a rival has exploited, over the round trip with the queue.
func (c *Controller) compete(t instant) {
	least := min(leastDwell, dwellTrips*c.delay.base())
	if c.competition.dwell = max(least, min(2*c.competition.dwell, least<<mostDoublings)); c.competition.seen == 0 || t-c.competition.seen > minimumLife {
		c.competition.dwell = least
	}
	if c.dips.compete(t, c.delay.base()) { // a rival has taken what a common Dip had freed
		c.queueing.rateBefore = max(c.queueing.rateBefore, c.dips.rate)
	}
	c.competition.seen, c.competition.began = t, t
	c.competition.window = max(c.queueing.rateBefore*c.delay.smoothed.Seconds(), c.leastWindow())
	c.competition.cut = t
	c.flood.begin(&c.round)
	c.enter(Compete, t)
}

// stepCompete is congestion avoidance as in New Reno (RFC 5681, section 3.1),
// until nobody else seems to be there.
func (c *Controller) stepCompete(t instant, b batch, ended bool) {
	switch {
	case c.competition.sharing.on:
		c.stepShare(t, b, ended)
	case b.lately && (b.full || c.flooded() || c.queue > c.delay.target()):
		c.competition.seen = t
		if c.queue > 2*c.delay.target() && c.congestion.baseline.value < rare { // others may have been lost at random
			c.competition.yielded, c.competition.yieldDepth = t, c.delay.depth
		}
		c.cutWindow(t)
	case ended && c.alone(t):
		c.resign(t)
	case ended && max(c.queueing.unmoved.rounds, c.queueing.both.rounds) >= longerRounds:
		c.goLonger(t)
	case ended && c.rounds <= longerRounds && c.queueing.unmoved.rounds > 1:
		// The queue may be a longer path, which shows only while the window does
		// not grow: on a slow path one packet more in each round moves the queue.
	case ended:
		c.competition.window += additive * float64(c.cfg.Packet)
	}
}

// cutWindow reduces the window to the part multiplicative of itself, as the
// answer to all losses of one epoch.
func (c *Controller) cutWindow(t instant) {
	c.remember(t, 1)
	c.competition.window = max(c.competition.window*multiplicative, leastCompete*float64(c.cfg.Packet))
	c.competition.cut = t
}

// resign leaves Compete, at the rate of the window. If next to no queue was
// seen for long, there was no competitor, and the losses were random: they
// justify one reduction at most, and show what share of loss is usual.
func (c *Controller) resign(t instant) {
	window := c.competition.window / max(c.delay.smoothed, 1).Seconds()
	rate := min(window, c.rates.value())
	if c.competition.emptyRounds >= vacantRounds {
		rate = max(rate, multiplicative*c.queueing.rateBefore)
		if left := c.competition.emptyFates; left.count() > plenty && (left.share() < faint || window < sunk*c.queueing.rateBefore) {
			c.congestion.relearn(t, left)
		}
	}
	c.competition.seen = t
	c.rates.set(c.filling, rate)
	c.enter(Cruise, t)
}

// alone reports whether nobody else seems to fill the queue any more.
func (c *Controller) alone(t instant) bool {
	gone := c.round.leastQueue < c.delay.target()/2
	switch {
	case c.flood.shows():
		return false
	case c.delay.short():
		return gone && (c.competition.emptyRounds >= vacantRounds && !c.startDroppedLately(t) || t-c.since >= c.competition.dwell)
	case c.othersYield(t):
		return c.competition.emptyRounds >= vacantRounds
	}
	return gone
}

// othersYield reports whether losses have lately made us yield to others over a queue that may
// be empty for a moment whenever all flows answer a loss: flows that halve their windows twice
// leave just what a path holds whose queue is two products deep. A controller that takes such a
// moment for the end of the competition gets a quarter of the link beside the kernel's CUBIC.
func (c *Controller) othersYield(t instant) bool {
	return c.competition.yielded > 0 && t-c.competition.yielded < othersLife && c.competition.yieldDepth <= 2*c.delay.base()
}

// startDroppedLately reports whether a start has lately met losses without a queue, as
// on a path with a policer. While the policer's bucket lasts, a look there finds more
// rate than the path has, and an empty queue means nothing. But if the rate has grown
// much since, the path has no policer: the losses of the start were those of an outage.
func (c *Controller) startDroppedLately(t instant) bool {
	return c.start.dropped > 0 && t-c.start.dropped < minimumLife && c.Estimate() < outgrown*c.start.left
}
