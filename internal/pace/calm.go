package pace

import (
	"slices"
	"time"
)

// calmSamples is the minimum number of batches in a stretch for its maximum delay to show
// the effect of jitter.
const calmSamples = 8

// The bottom moves by 1/bottomFall of the distance to a lower stretch, and by
// 1/bottomRise of the distance to a higher one. Strong jitter leaves few packets of a
// round undelayed, and in some rounds none. So the bottom should be near the lowest of
// about thirty stretches.
const bottomFall, bottomRise = 4, 32

// swingRounds is the number of consecutive rounds that must swing to show that jitter has
// begun. One look makes a queue and empties it, but looks do not follow each other round
// by round for three rounds.
const swingRounds = 3

// A calm measures how high delays rise without a queue. Its value is the minimum, over
// the last 10 s, of the maximum delays in stretches of one or more rounds.
//
// Jitter and aggregation raise the maximum delay of every stretch. A queue of our own
// doesn't stand in all stretches. The queue of many controllers does, but it also raises
// the minimum delay of a stretch, which jitter doesn't.
type calm struct {
	lowest, highest time.Duration // minimum and maximum delay of a batch in this stretch
	samples         int           // batches in this stretch
	fates           tally         // fates of the packets decided in this stretch
	lowestPeak      minimum       // minimum of the stretches' maximum delays
	lows            minimum       // minimum of the stretches' lowest delays
	// Usual lowest delay of a stretch: near the minimum of the last stretches.
	bottom time.Duration
}

// note adds the minimum delay of a batch.
func (c *calm) note(d time.Duration) {
	if c.samples == 0 {
		c.lowest, c.highest = d, d
	}
	c.lowest, c.highest = min(c.lowest, d), max(c.highest, d)
	c.samples++
}

// roundOver ends the stretch if it has enough batches.
//
// The first stretch does not count if it lost more than random loss explains although the
// train arrived evenly. Its delays are those of a full queue and not of jitter. When it
// counted, eight controllers that began at once took the whole queue for jitter, and kept
// the queue full.
//
// If rival is true, somebody else fills the queue, so a higher stretch shows nothing
// about the bottom.
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

// follow moves the bottom towards the lowest delay of this stretch.
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

// standing returns the part of every stretch's delays that is a rival's standing queue,
// which is not jitter. When it counted as jitter, the queue seemed to be gone after 10 s,
// and the controller stopped competing with a New Reno that still filled a queue of four
// products.
func (c *calm) standing(rival bool) time.Duration {
	if !rival {
		return 0
	}
	return max(c.lows.min-c.bottom, 0)
}

// above returns the excess of the calm delay over the minimum delay.
func (c *calm) above(floor time.Duration) time.Duration {
	if !c.lowestPeak.known {
		return 0
	}
	return max(c.lowestPeak.min-floor, 0)
}

// A swings detects jitter and aggregation that have just begun. A calm shows them up to
// 10 s later, once it has forgotten the time before.
//
// A swings keeps the maximum delays of the last rounds in which the queue ran empty. The
// delays of a round are zero unless a packet waited longer than the target. A round with
// delays that are not zero is said to swing. Its queue is not our own, because a paced
// sender does not make and empty such a queue in a round trip. Rounds in which a queue
// stands are ignored.
type swings struct {
	trips [swingRounds]time.Duration // maximum round trips
	waits [swingRounds]time.Duration // maximum waits beyond the minimum one-way delay
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

// trip returns the round trip that each of the last rounds reached; 0 = they do not
// swing.
func (s *swings) trip() time.Duration { return slices.Min(s.trips[:]) }

// wait returns the wait that each of the last rounds reached; 0 = they do not swing.
func (s *swings) wait() time.Duration { return slices.Min(s.waits[:]) }
