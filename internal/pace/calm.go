package pace

import "time"

// calmSamples is how many batches a stretch must have for its greatest delay to show what jitter does.
const calmSamples = 8

// calm finds how high delays rise without a queue: it is the least, over the last 10 s, of the greatest delays in stretches of one round or more.
// Jitter, and deliveries in clumps, raise the greatest delay of every stretch; a queue of ours does not stand in all of them.
type calm struct {
	greatest time.Duration // delay of a batch in this stretch
	samples  int           // batches in this stretch
	fates    tally         // of packets decided in this stretch
	least    minimum       // of the greatest delays of stretches
}

// note takes the least delay of a batch.
func (c *calm) note(d time.Duration) {
	if c.samples == 0 || d > c.greatest {
		c.greatest = d
	}
	c.samples++
}

// roundOver ends the stretch when it has enough batches. A first stretch does not count when it has lost more than random loss explains
// although the train came evenly: its delays are those of a full queue, and not of jitter. Eight controllers that began at once took the
// whole queue for jitter, and kept it full.
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
