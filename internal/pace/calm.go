package pace

import "time"

// calmSamples is how many batches a stretch of time needs before its greatest delay says what jitter does.
const calmSamples = 8

// calm is what a delay comes up to without a queue: the least, over the last 10 s, of the greatest delay in a round or more.
// Jitter and deliveries in clumps spread the delays of every round; a queue of ours does not stand in all of them.
type calm struct {
	greatest time.Duration // of the batches of this stretch
	samples  int
	fates    tally   // of the packets of which it was heard in it
	least    minimum // of the stretches' greatest
}

// note takes the least delay of a batch.
func (c *calm) note(d time.Duration) {
	if c.samples == 0 || d > c.greatest {
		c.greatest = d
	}
	c.samples++
}

// roundOver closes the stretch when it has batches enough. even: the train came at even distances, through no jitter to speak of. Then a
// first stretch that lost more than any random loss explains shows a full queue: of eight that began at once each took all of that
// for jitter, and they kept it full.
func (c *calm) roundOver(t instant, fates tally, even bool) {
	c.fates.add(fates)
	if c.samples < calmSamples {
		return
	}
	if crashed := c.fates.count() >= trainPackets && c.fates.share() > maxRandomLoss; c.least.known || !crashed || !even {
		c.least.add(t, c.greatest)
	}
	c.samples, c.fates = 0, tally{}
}

// above returns how far the calm delay lies above the least delay.
func (c *calm) above(least time.Duration) time.Duration {
	if !c.least.known {
		return 0
	}
	return max(c.least.least-least, 0)
}
