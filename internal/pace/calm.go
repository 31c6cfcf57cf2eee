package pace

import (
	"slices"
	"time"
)

// calmSamples is how many batches a stretch must have for its greatest delay to
// show what jitter does.
const calmSamples = 8

// The bottom moves by 1/bottomFall of the way to a lower stretch, and by 1/bottomRise of
// the way to a higher one. Strong jitter leaves few packets of a round undelayed, and in
// some rounds none, so the bottom is meant to be near the lowest of about thirty stretches.
const bottomFall, bottomRise = 4, 32

// swingRounds is how many rounds must swing one after another to show that jitter has begun. One
// look makes a queue and empties it, but three looks do not follow each other round by round.
const swingRounds = 3

// A calm finds how high delays rise without a queue. It is the least, over the
// last 10 s, of the greatest delays in stretches of one round or more. Jitter,
// and deliveries in clumps, raise the greatest delay of every stretch, while a
// queue of our own does not stand in all of them. The queue of many controllers
// does, but it also raises the least delays of stretches, which jitter does not.
type calm struct {
	lowest, greatest time.Duration // the least and the greatest delay of a batch in this stretch
	samples          int           // batches in this stretch
	fates            tally         // fates of the packets decided in this stretch
	least            minimum       // the least of the greatest delays of stretches
	lows             minimum       // the least of their lowest ones
	bottom           time.Duration // the usual lowest delay of a stretch, near the least of the last stretches
}

// note adds the least delay of a batch.
func (c *calm) note(d time.Duration) {
	if c.samples == 0 {
		c.lowest, c.greatest = d, d
	}
	c.lowest, c.greatest = min(c.lowest, d), max(c.greatest, d)
	c.samples++
}

// roundOver ends the stretch if it has enough batches. A first stretch does not count
// if it has lost more than random loss explains although the train arrived evenly:
// its delays are those of a full queue, and not of jitter. Eight controllers that
// began at once took the whole queue for jitter, and kept it full. If rival is true,
// somebody else fills the queue, so a higher stretch shows nothing about the bottom.
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

// standing returns how much of the delays of all stretches is a rival's standing queue,
// which is not jitter. While it counted as jitter, it seemed to be gone after 10 s, and the
// controller stopped competing with a New Reno that still filled a queue of four products.
func (c *calm) standing(rival bool) time.Duration {
	if !rival {
		return 0
	}
	return max(c.lows.least-c.bottom, 0)
}

// above returns how far the calm delay exceeds the least delay.
func (c *calm) above(least time.Duration) time.Duration {
	if !c.least.known {
		return 0
	}
	return max(c.least.least-least, 0)
}

// A swings detects jitter and clumps that have just begun. A calm shows them only once it
// has forgotten the time before, up to 10 s later. swings keeps the greatest delays of the
// last rounds in which the queue ran empty: zero, unless a packet waited longer than the
// target. A round that swings like this meets no queue of our own, because a paced sender
// does not make and empty one in a round trip. Rounds in which a queue stands are ignored.
type swings struct {
	trips [swingRounds]time.Duration // greatest round trips
	waits [swingRounds]time.Duration // greatest waits beyond the least one-way delay
}

// roundOver adds a round, unless a queue stood in it.
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

// trip returns the round trip that every one of the last rounds has reached; 0 = they do not swing.
func (s *swings) trip() time.Duration { return slices.Min(s.trips[:]) }

// wait returns how long a packet waited in every one of the last rounds; 0 = they do not swing.
func (s *swings) wait() time.Duration { return slices.Min(s.waits[:]) }
