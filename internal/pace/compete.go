package pace

import "time"

const (
	// vacantRounds in a row with next to no queue though we compete mean that nobody else is there.
	vacantRounds = 8
	// plenty of packets that met next to no queue tell what is lost at random: all of a loss below faint, and even more where
	// we have sunk to a part of what we had. Sixteen on a queue too short to be told from jitter send fewer, and would take
	// what they do to each other for random.
	plenty, faint, sunk = 80, 0.02, 0.25
	// leastDwell is how long losses of a short queue keep us competing at first: such a queue is gone most of the time
	// though others fill it. It doubles each time they come back, up to mostDwell.
	leastDwell, mostDwell = 2 * time.Second, 30 * time.Second
	// additive and multiplicative are a pair of AIMD that is as fast as New Reno's 1 and 0.5 (RFC 9438, 4.3, for 0.7):
	// growth in proportion to what one has would be unfair for ever.
	additive, multiplicative = 0.53, 0.7
	// leastCompete packets are the least window of a competitor: 16 flows of four would be 15 % of loss by themselves.
	leastCompete = 2
)

// compete begins with the part of the bottleneck that we had before the queue stayed.
func (c *Controller) compete(t instant) {
	if c.dwell = min(2*c.dwell, mostDwell); c.rival == 0 || t-c.rival > minimumLife {
		c.dwell = leastDwell
	}
	c.rival = t
	c.window = max(c.kept*c.delay.smoothed.Seconds(), c.leastWindow())
	c.cut = t
	c.enter(Compete, t)
}

// stepCompete is congestion avoidance as of New Reno (RFC 5681), until the queue is gone for a round trip.
func (c *Controller) stepCompete(t instant, b batch, ended bool) {
	switch {
	case b.lately && (b.full || c.flooded() || c.queue > c.delay.target()):
		c.rival = t
		c.halve(t)
	case ended && c.alone(t):
		c.resign(t)
	case ended:
		c.window += additive * float64(c.cfg.Packet)
	}
}

// halve answers a loss epoch.
func (c *Controller) halve(t instant) {
	c.remember(t)
	c.window = max(c.window*multiplicative, leastCompete*float64(c.cfg.Packet))
	c.cut = t
}

// resign goes on alone, at the rate of the window. Where next to no queue was seen for long there was no rival: the losses
// were random ones, no reason for more than one reduction, and tell what is usual.
func (c *Controller) resign(t instant) {
	window := c.window / max(c.delay.smoothed, 1).Seconds()
	rate := min(window, c.rates.value())
	if c.vacated >= vacantRounds {
		rate = max(rate, multiplicative*c.kept)
		if left := c.vacantLeft; left.count() > plenty && (left.share() < faint || window < sunk*c.kept) {
			c.congestion.relearn(t, left)
		}
	}
	c.rival = t
	c.rates.set(c.filling, rate)
	c.enter(Cruise, t)
}

// alone reports that nobody seems to fill the queue any more.
func (c *Controller) alone(t instant) bool {
	return c.standing < c.delay.target()/2 && (c.vacated >= vacantRounds && !c.isBurnt(t) || t-c.since >= c.dwell || !c.delay.short())
}

// isBurnt reports that a start has lately met losses in place of a queue, as behind a policer. There a look finds more rate
// than the path has, as long as the policer's bucket lasts, and an empty queue says nothing.
func (c *Controller) isBurnt(t instant) bool { return c.burnt > 0 && t-c.burnt < minimumLife }
