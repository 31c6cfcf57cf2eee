package pace

import (
	"slices"
	"time"
)

// calmSamples is how many batches a stretch must have for its greatest delay to show what jitter does.
const calmSamples = 8

// bottomFall and bottomRise are the parts of the way to a lower and to a higher stretch that the bottom goes. Strong jitter leaves few packets of a
// round undelayed, and in some rounds none: the bottom is to be near the lowest of some thirty stretches.
const bottomFall, bottomRise = 4, 32

// swingRounds is how many rounds must swing one after another for jitter to have begun. One look makes a queue and empties it, but three do not
// follow each other round by round.
const swingRounds = 3

// calm finds how high delays rise without a queue: it is the least, over the last 10 s, of the greatest delays in stretches of one round or more.
// Jitter, and deliveries in clumps, raise the greatest delay of every stretch; a queue of ours does not stand in all of them. A crowd's does: but it
// raises the least delays of stretches as well, which jitter does not.
type calm struct {
	lowest, greatest time.Duration // delay of a batch in this stretch
	samples          int           // batches in this stretch
	fates            tally         // of packets decided in this stretch
	least            minimum       // of the greatest delays of stretches
	lows             minimum       // of their lowest ones
	bottom           time.Duration // lowest of the usual stretch, near the least of the last ones
}

// note takes the least delay of a batch.
func (c *calm) note(d time.Duration) {
	if c.samples == 0 {
		c.lowest, c.greatest = d, d
	}
	c.lowest, c.greatest = min(c.lowest, d), max(c.greatest, d)
	c.samples++
}

// roundOver ends the stretch when it has enough batches. A first stretch does not count when it has lost more than random loss explains
// although the train came evenly: its delays are those of a full queue, and not of jitter. Eight controllers that began at once took the
// whole queue for jitter, and kept it full. rival says that somebody else fills the queue: that shows nothing of the bottom.
func (c *calm) roundOver(t instant, fates tally, even, rival bool) {
	c.fates.add(fates)
	if c.samples < calmSamples {
		return
	}
	if crashed := c.fates.count() >= trainPackets && c.fates.share() > maxRandomLoss; c.least.known || !crashed || !even {
		c.follow(rival)
		c.lows.add(t, c.lowest)
		c.least.add(t, c.greatest-c.standing(rival))
	}
	c.samples, c.fates = 0, tally{}
}

// follow moves the bottom towards the lowest delay of this stretch.
func (c *calm) follow(rival bool) {
	switch {
	case !c.least.known:
		c.bottom = c.lowest
	case c.lowest < c.bottom:
		c.bottom -= (c.bottom - c.lowest) / bottomFall
	case !rival:
		c.bottom += (c.lowest - c.bottom) / bottomRise
	}
}

// standing returns how much of the delays of all stretches is a rival's standing queue, which is not jitter. While it counted as jitter, it seemed
// to be gone after 10 s, and the controller stopped competing with a New Reno that still filled a queue of four products.
func (c *calm) standing(rival bool) time.Duration {
	if !rival {
		return 0
	}
	return max(c.lows.least-c.bottom, 0)
}

// above returns how far the calm delay lies above the least delay.
func (c *calm) above(least time.Duration) time.Duration {
	if !c.least.known {
		return 0
	}
	return max(c.least.least-least, 0)
}

// swings finds jitter and clumps that have just begun, which calm shows when it has forgotten the time before, up to 10 s later. It keeps the
// greatest delays of the last rounds in which the queue ran empty: zero, unless a packet waited longer than the target. A round that swings like
// this meets no queue of our own, for a paced sender does not make and empty one in a round trip. Rounds in which a queue stands say nothing.
type swings struct {
	trips [swingRounds]time.Duration // round trips
	waits [swingRounds]time.Duration // beyond the least one-way delay
}

// roundOver ends a round.
func (s *swings) roundOver(r *round, d *delay) {
	if !r.ranEmpty(d) {
		return
	}
	copy(s.trips[:], s.trips[1:])
	copy(s.waits[:], s.waits[1:])
	s.trips[swingRounds-1], s.waits[swingRounds-1] = 0, 0
	if r.swings(d) {
		s.trips[swingRounds-1], s.waits[swingRounds-1] = r.mostTrip, r.mostWait
	}
}

// trip returns the round trip that every one of the last rounds has reached, and wait how long a packet waited in each; 0 = they do not swing.
func (s *swings) trip() time.Duration { return slices.Min(s.trips[:]) }
func (s *swings) wait() time.Duration { return slices.Min(s.waits[:]) }
