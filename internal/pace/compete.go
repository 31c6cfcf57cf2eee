package pace

import "time"

const (
	// vacantRounds in a row with next to no queue though we compete mean that nobody else is there.
	vacantRounds = 8
	// plenty of packets that met next to no queue tell what is lost at random: all of a loss below faint, and even more where
	// we have sunk to a part of what we had. Sixteen on a queue too short to be told from jitter send fewer, and would take
	// what they do to each other for random.
	plenty, faint, sunk = 80, 0.02, 0.25
	// rare is the share of random loss below which a loss over a deep queue is taken for a competitor's: at 2 Mbit/s and 2 %, a
	// transfer alone meets one over a queue of its own every ten round trips, and would compete with itself for ever.
	rare = 0.005
	// leastDwell is how long losses of a short queue keep us competing at first: such a queue is gone most of the time
	// though others fill it. It is dwellTrips round trips where those are shorter: windows recover by the round trip, and 2 s
	// are 600 of 3 ms. It doubles each time they come back, mostDoublings times at most.
	leastDwell, dwellTrips, mostDoublings = 2 * time.Second, 40, 4
	// othersLife is for how long a competitor is reckoned with that has made us yield: CUBIC's windows at home take 4 to 10 s from
	// one loss to the next.
	othersLife = 30 * time.Second
	// doubtful is after how long without a loss a competitor leaves the queue for a moment, to see whether it is its own: over a
	// route that has become longer every delay looks like a queue, until the least one is forgotten, and then it is one. Beside
	// New Reno and CUBIC over a queue of four products, where losses are 10 s apart and more, each time costs some of our part.
	doubtful = 2 * minimumLife
	// additive and multiplicative are a pair of AIMD that is as fast as New Reno's 1 and 0.5 (RFC 9438, 4.3), and slower than quic-go's 1 and 0.7:
	// growth in proportion to what one has would be unfair for ever.
	additive, multiplicative = 0.53, 0.7
	// leastCompete packets are the least window of a competitor: 16 flows of four would be 15 % of loss by themselves.
	leastCompete = 2
)

// competition is what Compete keeps, and what of it lasts beyond.
type competition struct {
	window      float64       // bytes
	cut         instant       // of the window: losses of packets that left before are of the same epoch
	emptyRounds int           // in a row, with next to no queue
	emptyFates  tally         // of the packets of which it was heard in them
	interrupted bool          // Dip interrupts it
	dwell       time.Duration // that it lasts at least on a short queue

	seen         instant       // when a competitor was last reckoned with
	lossAnswered instant       // when losses of a full queue were last met without competing
	yielded      instant       // when a loss last made us yield
	yieldDepth   time.Duration // of the queue that dropped it
}

// compete begins with a window for the rate that we had before the queue stayed, over the round trip as it is with the queue.
func (c *Controller) compete(t instant) {
	least := min(leastDwell, dwellTrips*c.delay.base())
	if c.competition.dwell = max(least, min(2*c.competition.dwell, least<<mostDoublings)); c.competition.seen == 0 || t-c.competition.seen > minimumLife {
		c.competition.dwell = least
	}
	c.competition.seen = t
	c.competition.window = max(c.rateBeforeQueue*c.delay.smoothed.Seconds(), c.leastWindow())
	c.competition.cut = t
	c.enter(Compete, t)
}

// stepCompete is congestion avoidance in the way of New Reno (RFC 5681), until nobody else seems to be there.
func (c *Controller) stepCompete(t instant, b batch, ended bool) {
	switch {
	case b.lately && (b.full || c.flooded() || c.queue > c.delay.target()):
		c.competition.seen = t
		if c.queue > 2*c.delay.target() && c.congestion.baseline.value < rare { // others may have been lost at random
			c.competition.yielded, c.competition.yieldDepth = t, c.delay.depth
		}
		c.halve(t)
	case ended && c.alone(t):
		c.resign(t)
	case t-max(c.since, c.competition.cut) > doubtful:
		c.competition.interrupted = true
		c.enter(Dip, t)
	case ended:
		c.competition.window += additive * float64(c.cfg.Packet)
	}
}

// halve answers a loss epoch.
func (c *Controller) halve(t instant) {
	c.remember(t)
	c.competition.window = max(c.competition.window*multiplicative, leastCompete*float64(c.cfg.Packet))
	c.competition.cut = t
}

// resign goes on alone, at the rate of the window. Where next to no queue was seen for long there was no competitor: the losses
// were random ones, no reason for more than one reduction, and tell what is usual.
func (c *Controller) resign(t instant) {
	window := c.competition.window / max(c.delay.smoothed, 1).Seconds()
	rate := min(window, c.rates.value())
	if c.competition.emptyRounds >= vacantRounds {
		rate = max(rate, multiplicative*c.rateBeforeQueue)
		if left := c.competition.emptyFates; left.count() > plenty && (left.share() < faint || window < sunk*c.rateBeforeQueue) {
			c.congestion.relearn(t, left)
		}
	}
	c.competition.seen = t
	c.rates.set(c.filling, rate)
	c.enter(Cruise, t)
}

// alone reports that nobody seems to fill the queue any more.
func (c *Controller) alone(t instant) bool {
	gone := c.round.leastQueue < c.delay.target()/2
	switch {
	case c.delay.short():
		return gone && (c.competition.emptyRounds >= vacantRounds && !c.startDroppedLately(t) || t-c.since >= c.competition.dwell)
	case c.othersYield(t):
		return c.competition.emptyRounds >= vacantRounds
	}
	return gone
}

// othersYield reports that losses have lately made us yield beside others, over a queue that may be empty for a moment whenever
// all answer a loss: who halves a window twice leaves no more than a path holds whose queue is twice as deep. Beside the
// kernel's CUBIC one who takes such a moment for its end has a quarter of the link.
func (c *Controller) othersYield(t instant) bool {
	return c.competition.yielded > 0 && t-c.competition.yielded < othersLife && c.competition.yieldDepth <= 2*c.delay.base()
}

// startDroppedLately reports that a start has lately met losses in place of a queue, as behind a policer. There a look finds more rate
// than the path has, as long as the policer's bucket lasts, and an empty queue says nothing.
func (c *Controller) startDroppedLately(t instant) bool {
	return c.startDropped > 0 && t-c.startDropped < minimumLife
}
