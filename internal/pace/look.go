package pace

import "time"

const (
	// lookGain makes a queue of a quarter of a round trip in a round trip, which is the target (BBR's gain too).
	lookGain = 1.25
	// mostGain bounds what is added when the path is shared.
	mostGain = 2
	// swiftGain is that of a swift look, for a swiftPart of a round trip.
	swiftGain, swiftPart = 2, 0.2
	// leastLook packets show a rate. Fewer, and two lost ones that count as passed, are a fifth more of it by chance.
	leastLook = 8
	// paid is the part of what a look tried that must arrive for a start to be worth it: one of two who share a full
	// bottleneck gets half of it, at the other's cost.
	paid = 0.8
	// lookRounds is after how many rounds the packets of a look are decided.
	lookRounds = 4

	// leastPause and mostPause are how many rounds lie between two looks: BBR looks in one of 8. They vary so that two
	// controllers do not look at once.
	leastPause, mostPause = 6, 9
	// shallowPause is by how much a look is rarer where it costs losses: it takes 1 % of the packets then.
	shallowPause = 3
)

// look is a trial of more rate. A swift one sends in a quarter of a round trip what others send too much in a whole one: it
// tells sooner, and of twice the rate, where nothing is known of those who share the path.
type look struct {
	number  uint32
	swift   bool
	from    float64 // the estimate at its beginning
	until   int64   // round until which its samples count; 0 = no look is open
	outcome tally
	queue   time.Duration // at its beginning
	peak    time.Duration // since
}

// open begins a look.
func (c *Controller) open(t instant, swift bool) {
	c.enter(Up, t)
	c.look = look{number: c.look.number + 1, swift: swift, from: c.Estimate(), until: c.round.number + lookRounds, queue: c.queue}
}

// lookTime is how long a look sends more: as long as the shortest sample is, which else would show a part of it only.
func (c *Controller) lookTime() time.Duration {
	base := c.delay.base()
	if !c.look.swift {
		return c.delay.reach()
	}
	return max(time.Duration(swiftPart*float64(base)), 2*c.delay.jitter(), leastLook*c.delay.grain/swiftGain)
}

// push is the gain of looks. All who share a bottleneck are to add the same to it, a quarter of the whole, so that the
// smaller part grows the faster: what queue the last look made tells which part of the whole ours is.
func (c *Controller) push() float64 {
	if c.look.swift {
		return swiftGain
	}
	return 1 + max(c.extra, lookGain-1)
}

// payback is the gain after a look, which undoes in as long, or little longer, what the look sent too much.
func (c *Controller) payback() float64 { return max(2-c.push(), emptyGain) }

// stepUp ends the look early when the queue has grown.
func (c *Controller) stepUp(t instant, b batch) {
	if target := c.delay.target(); c.queue > target || b.lost > 0 && c.queue > target/2 {
		c.endLook(t)
	}
}

// lapse ends the look, and the pause after it, when their time has come, whether or not acks do.
func (c *Controller) lapse(t instant) {
	switch {
	case c.state == Up && t-c.since > c.lookTime():
		c.endLook(t)
	case c.state == Drain && c.payingBack && t-c.since >= c.paybackTime():
		c.enter(Cruise, t)
	}
}

// paybackTime is how long the gain after a look takes to undo what the look sent too much.
func (c *Controller) paybackTime() time.Duration {
	return time.Duration(float64(c.lookTime()) * (c.push() - 1) / (1 - c.payback()))
}

// endLook ends the look; what it found arrives while the queue that it made drains.
func (c *Controller) endLook(t instant) {
	c.enter(Drain, t)
	c.payingBack = true
}

// afterLook drains further when the look made a greater queue than it should. What queue it made is not yet seen when the
// gain after it has undone that, so that waiting to see it gone would leave the bottleneck idle.
func (c *Controller) afterLook() {
	if c.queue > 2*c.delay.target() {
		c.payingBack = false
		c.trimIfSteady()
	}
}

// judge closes a look that found more rate, or whose packets are decided, and tells which.
func (c *Controller) judge(t instant) (found bool) {
	l := &c.look
	if l.until == 0 {
		return false
	}
	l.peak = max(l.peak, c.queue)
	switch {
	case c.hasFound(t):
		l.until, c.shallow, c.lookedInVain = 0, false, false
		return true
	case c.round.number >= l.until:
		c.close()
	}
	return false
}

// hasFound tells whether the look found more rate. Rate that comes with a queue above the target, or after one, was somebody
// else's, who drained; behind a policer it lasts as long as the bucket.
func (c *Controller) hasFound(t instant) bool {
	l, target := &c.look, c.delay.target()
	more := l.outcome.count() >= leastLook && c.Estimate() > l.from*(1+paid*(c.push()-1))
	return more && c.queue < target/2 && l.peak <= target && c.state != Compete && !c.startDroppedLately(t)
}

// close draws the conclusions from a look that found nothing. What it took while a queue stood, it took from others.
func (c *Controller) close() {
	l := &c.look
	l.until, c.lookedInVain = 0, true
	if c.state != Compete && l.peak > c.delay.aim() && c.rates.value() > l.from {
		c.rates.set(c.filling, l.from)
	}
	dropped := l.outcome.above(c.usual())
	c.shallow = dropped && c.Estimate() < l.from*1.05
	if dropped {
		c.extra = 0
		return
	}
	wanted := (lookGain - 1) * c.delay.base().Seconds()
	rise := max(l.peak-l.queue, 1).Seconds()
	added := (c.push() - 1) * c.lookTime().Seconds() / c.delay.base().Seconds()
	c.extra = min(added*min(max(wanted/rise, 0.5), 2), mostGain-1)
}

// distance draws how many rounds to cruise before the next look, from the time, which differs between controllers.
func (c *Controller) distance(t instant) int {
	pause := leastPause + int(uint64(t)/1024*0x9E3779B97F4A7C15>>32)%(mostPause-leastPause+1)
	if c.shallow {
		pause *= shallowPause
	}
	return pause
}
