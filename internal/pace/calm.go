package pace

import (
	"slices"
	"time"
)

// calmSamples is how many batches a stretch (one or more rounds) must have for its maximum delay to
// show the jitter.
const calmSamples = 8

// calm.bottom moves by 1/bottomFall of the way to a lower stretch, but only by 1/bottomRise of the
// way to a higher one, so that it stays near the lowest of about bottomRise stretches. Strong
// jitter leaves only a few packets of a round undelayed, and in some rounds none.
const bottomFall, bottomRise = 4, 32

// swingRounds is how many rounds in a row must swing to show that jitter has begun. A look also
// builds a queue and empties it again, but looks don't do so in three rounds in a row.
const swingRounds = 3

// A calm is a jitter detector. It measures how high delays rise without a queue, which is the
// minimum over the last 10 s of the maximum delays in stretches of one or more rounds.
//
// This works because jitter and aggregation raise the maximum delay of every stretch, while a queue
// of our own doesn't. A queue of many controllers may, but unlike jitter, it also raises a
// stretch's minimum delay.
type calm struct {
	// The current stretch.
	lowest, highest time.Duration // minimum and maximum delay of its batches
	samples         int           // how many batches it has
	fates           tally         // of the packets whose fates became known in it

	// All stretches.
	lowestPeak minimum       // of their maximum delays
	lows       minimum       // of their lowest delays
	bottom     time.Duration // the usual lowest delay, near the minimum of the last stretches
}

// note adds a batch's minimum delay.
func (c *calm) note(d time.Duration) {
	if c.samples == 0 {
		c.lowest, c.highest = d, d
	}
	c.lowest, c.highest = min(c.lowest, d), max(c.highest, d)
	c.samples++
}

// roundOver ends the stretch if it has enough batches. If there's a rival that fills the queue, a
// higher stretch shows nothing about the bottom.
//
// The first stretch doesn't count if more was lost than random loss explains although the train
// arrived evenly, because its delays are then those of a full queue. If it counted, eight
// controllers that begin at once would take the whole queue for jitter and keep it full.
func (c *calm) roundOver(t instant, fates tally, even, rival bool) {
	c.fates.add(fates)
	if c.samples < calmSamples {
		return
	}
	crashed := c.fates.count() >= trainPackets && c.fates.share() > maxRandomLoss
	if c.lowestPeak.known || !crashed || !even {
		c.follow(rival)
		c.lows.add(t, c.lowest)
		c.lowestPeak.add(t, c.highest-c.standing(rival))
	}
	c.samples = 0
	c.fates = tally{}
}

// follow moves the bottom towards this stretch's lowest delay.
func (c *calm) follow(rival bool) {
	switch {
	case !c.lowestPeak.known:
		c.bottom = c.lowest
	case c.lowest < c.bottom:
		c.bottom -= (c.bottom - c.lowest) / bottomFall
	case !rival:
		c.bottom += (c.lowest - c.bottom) / bottomRise
	}
}

// standing returns how much of every stretch's delay is a rival's standing queue and not jitter. If
// we took it for jitter, the queue would seem to be gone after 10 s, and we would stop competing
// while a New Reno still fills a queue of four bandwidth-delay products.
func (c *calm) standing(rival bool) time.Duration {
	if !rival {
		return 0
	}
	return max(c.lows.min-c.bottom, 0)
}

// above returns by how much the delay without a queue exceeds a minimum delay.
func (c *calm) above(floor time.Duration) time.Duration {
	if !c.lowestPeak.known {
		return 0
	}
	return max(c.lowestPeak.min-floor, 0)
}

// A swings detects jitter and aggregation that have just begun. A calm needs up to 10 s to show
// them, because it first has to forget the time before they began.
//
// It remembers the maximum delays of the last rounds in which the queue ran empty, and ignores
// those in which a queue stood. A round swings if the queue ran empty and yet some packet waited
// longer than the target. The cause can't be a queue of our own, since a paced sender doesn't build
// and empty such a queue within a round trip. A round that doesn't swing counts as 0.
type swings struct {
	trips [swingRounds]time.Duration // longest round trips
	waits [swingRounds]time.Duration // longest waits, beyond the minimum one-way delay
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
		s.trips[swingRounds-1] = r.maxTrip
		s.waits[swingRounds-1] = r.maxWait
	}
}

// trip returns the round trip that each of the last rounds reached, or 0 if one of them doesn't
// swing.
func (s *swings) trip() time.Duration { return slices.Min(s.trips[:]) }

// wait returns the wait that each of the last rounds reached, or 0 if one of them doesn't swing.
func (s *swings) wait() time.Duration { return slices.Min(s.waits[:]) }
