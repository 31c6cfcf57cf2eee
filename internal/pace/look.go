package pace

import "time"

const (
	// lookGain is the gain of a look, the same as in BBR. Over a round trip it builds a queue of a
	// quarter of a round trip, which is exactly the target.
	lookGain = 1.25

	// maxGain limits the gain of a look on a shared path.
	maxGain = 2

	// A swift look has the gain swiftGain, and lasts swiftPart of a round trip.
	swiftGain, swiftPart = 2, 0.2

	// minLookPackets is how many packets of a look must have arrived or been lost before the look
	// can show a rate. With fewer, just two lost packets that count as delivered would raise the
	// measured rate by a fifth.
	minLookPackets = 8

	// paidPart is how much of what a look adds to the rate must arrive for the look to succeed. It
	// is well above a half, because if two controllers share a full bottleneck, half of what one of
	// them adds gets through at the other's expense.
	paidPart = 0.8

	// noGrowth is the factor up to which a higher estimate after a look doesn't count as growth.
	noGrowth = 1.05

	// lookRounds is how many rounds we wait for the fates of a look's packets.
	lookRounds = 4
)

// A look probes for bandwidth. For a while it sends at a higher rate than the estimate, to see
// whether more arrives (like ProbeBW_UP of BBR).
//
// A swift look sends at twice the rate, but only for a fifth of a round trip. It adds about as many
// bytes as an ordinary look does in a whole round trip, and shows sooner whether there is room. We
// use it when we don't know who else is on the path.
type look struct {
	number uint16 // even, because number+1 marks the payback; 0 = none yet
	swift  bool

	// Limits of the gain's excess over 1.
	minExtra float64
	maxExtra float64 // so that a short queue can hold what the look adds; 0 = no limit
	fits     bool    // too small to overflow the queue on its own; see fitting.fits

	from  float64       // our estimate when it began, in bytes per second
	until int64         // last round in which it may be open; 0 = closed (see open)
	queue time.Duration // the queue when it began
	peak  time.Duration // the longest queue since

	// Fates known since it began, or since blame compared it.
	outcome tally // of its packets
	payback tally // of the packets of the drain that pays it back
	rest    tally // of all others

	// The rate that the packets of a swift look have shown since the last sample. Zero bytes mean
	// none. A swift look is over sooner than a round trip, and a batch may end with packets sent
	// after it.
	shown slope
}

// next returns the number of the next look.
func (l *look) next() uint16 { return max(l.number+2, 2) }

// of returns the tally to which the fate of a packet belongs.
func (l *look) of(s Sample) *tally {
	switch {
	case s.look == 0:
		return &l.rest
	case s.look == l.number:
		return &l.outcome
	case s.look == l.number+1:
		return &l.payback
	}
	return &l.rest
}

// open reports whether the look still waits for the fates of its packets.
func (l *look) open() bool { return l.until > 0 }

// causesDrops reports whether to blame the look when a full queue drops packets. An open look is
// to blame, since it filled the queue, unless it fits into a queue that others filled recently.
func (l *look) causesDrops(others bool) bool { return l.open() && !(l.fits && others) }

// lookMark returns the mark of a packet sent now: the look's number, 1 more in its payback, or 0.
func (c *Controller) lookMark() uint16 {
	switch {
	case c.state == Up:
		return c.look.number
	case c.state == Drain && c.looks.payingBack:
		return c.look.number + 1
	}
	return 0
}

// openLook begins an ordinary look. The caller may make it swift.
func (c *Controller) openLook(t instant) {
	c.enter(Up, t)
	maxExtra := c.looks.fitting.maxExtra(t, &c.delay, c.fastest, c.assumedRate())
	c.look = look{
		number:   c.look.next(),
		minExtra: c.looks.play.lookGain(t) - 1,
		maxExtra: maxExtra,
		fits:     c.looks.fitting.fits(maxExtra),
		from:     c.Estimate(),
		until:    c.round.number + lookRounds,
		queue:    c.queue,
	}
}

// lookTime returns how long a look sends at the higher rate. That is how long a sample of the rate
// takes, because the samples of a shorter look would include some of the time before or after it.
//
// A swift look uses shorter samples, but it has to outlast the jitter and send at least
// minLookPackets packets.
func (c *Controller) lookTime() time.Duration {
	base := c.delay.base()
	if !c.look.swift {
		return c.delay.reach()
	}
	return max(time.Duration(swiftPart*float64(base)), 2*c.delay.jitter(), minLookPackets*c.delay.grain/swiftGain)
}

// push returns the gain of a look.
//
// Every flow that shares a bottleneck should add the same rate, a quarter of the bottleneck's, so
// that small shares grow faster than large ones. How large our share is shows in the queue that our
// last look built; see closeLook.
func (c *Controller) push() float64 {
	if c.look.swift {
		return swiftGain
	}
	extra := max(c.looks.extra, c.look.minExtra)
	if c.look.maxExtra > 0 {
		extra = min(extra, c.look.maxExtra)
	}
	return 1 + extra
}

// payback returns the gain of the drain after a look. It's as far below 1 as the look's gain was
// above 1, but no less than emptyGain.
func (c *Controller) payback() float64 { return max(2-c.push(), emptyGain) }

// stepUp cuts a look short if the queue has grown.
func (c *Controller) stepUp(t instant, b batch) {
	target := c.delay.target()
	if c.queue > target || b.lost > 0 && c.queue > target/2 {
		c.endLook(t)
	}
}

// lapseLook ends a look when its time is up, and later the drain that pays it back. It is called by
// Next, since neither should have to wait for an ack.
func (c *Controller) lapseLook(t instant) {
	switch {
	case c.state == Up && t-c.since > c.lookTime():
		c.endLook(t)
	case c.state == Drain && c.looks.payingBack && t-c.since >= c.paybackTime():
		c.enter(Cruise, t)
	}
}

// paybackTime returns how long we must send with the gain payback to make up for what the look
// added.
func (c *Controller) paybackTime() time.Duration {
	return time.Duration(float64(c.lookTime()) * (c.push() - 1) / (1 - c.payback()))
}

// endLook goes on to a drain. The look itself stays open, since the fates of its packets become
// known only during that drain.
func (c *Controller) endLook(t instant) {
	c.enter(Drain, t)
	c.looks.payingBack = !c.delay.narrow() // on a narrow path, drain until the queue is gone
}

// afterLook checks the queue during the drain after a look. Usually that drain takes paybackTime.
// We see the queue a round trip late, so if we waited until we see that it is gone, the bottleneck
// would run dry in the meantime. But if the look built a queue of more than twice the target,
// afterLook trims the estimate and makes the drain wait until the queue is gone.
func (c *Controller) afterLook() {
	if c.queue > 2*c.delay.target() {
		c.looks.payingBack = false
		c.trimIfSteady()
	}
}

// judgeLook closes an open look once it has found a higher rate or has run out of time. It reports
// whether the look found one.
func (c *Controller) judgeLook(t instant) (found bool) {
	l := &c.look
	if !l.open() {
		return false
	}
	l.peak = max(l.peak, c.queue)
	if c.hasFound(t) {
		l.until = 0
		c.looks.found(c.competition.lately(t))
		return true
	}
	if c.round.number >= l.until {
		c.closeLook()
	}
	return false
}

// hasFound reports whether the look has found a higher rate that the path can sustain.
func (c *Controller) hasFound(t instant) bool {
	l := &c.look
	more := l.outcome.count() >= minLookPackets && c.Estimate() > l.from*(1+paidPart*(c.push()-1))

	// If more was lost than random loss explains, the path doesn't carry the higher rate. (A run
	// of losses counts as a single one.)
	clean := l.outcome.events().share() <= unexplainedLoss

	// If there was a queue above the target, our packets got through at the expense of another flow
	// that was draining it.
	target := c.delay.target()
	idle := c.queue < target/2 && l.peak <= target && c.state != Compete

	// Soon after a start that met losses, the path may be policed. A higher rate then lasts only
	// until the policer's bucket is empty.
	return more && clean && idle && !c.startDroppedLately(t)
}

// closeLook closes a look that found nothing, and decides how large the next one will be.
func (c *Controller) closeLook() {
	l := &c.look
	l.until = 0

	// After a look in vain, the next one has to wait. A look with too few packets to find anything
	// is in vain as well, unless a start met losses. An outage may have swallowed the packets of
	// that start and left us with a rate of two packets per round trip, so we shouldn't wait even
	// longer.
	c.looks.inVain = l.outcome.count() >= minLookPackets || c.start.dropped == 0

	// If the look saw a queue, its gain came at the expense of others. Give it back, or at least
	// what exceeds our due.
	if c.state != Compete && l.peak > c.delay.aim() && c.rates.value() > l.from {
		c.rates.set(c.filling, min(c.rates.value(), l.from+l.due(c.looks.extra, &c.delay, c.cfg.Packet)))
	}

	dropped := l.outcome.events().above(c.usual())
	c.looks.shallow = dropped && c.Estimate() < l.from*noGrowth
	if dropped {
		c.looks.extra = 0                                // the next look adds the minimum
		if c.looks.shallow && l.peak > c.delay.depth/2 { // a policer has no queue
			c.looks.fitting.drop(c.now)
		}
		return
	}

	// The next look should build a queue of minExtra round trips. Scale what this one added by the
	// ratio of the two, but don't more than double or halve it.
	base := c.delay.base().Seconds()
	wanted := l.minExtra * base
	rise := max(l.peak-l.queue, 1).Seconds()
	added := (c.push() - 1) * c.lookTime().Seconds() / base // in round trips at our rate
	c.looks.extra = min(added*min(max(wanted/rise, 0.5), 2), maxGain-1)
}

// due returns what a look may take from others, in bytes per second. That is nothing if we have the
// path to ourselves, about a packet per round trip if we have half of it, and three if our share is
// small. How small it is shows in how much the looks must add, which is extra.
//
// Without this, looks would leave shares as they are, so that controllers which began unequally
// would be as unequal ten seconds later. But a short queue would drop what we keep, and in jitter
// we can't tell what our looks added to the queue.
func (l *look) due(extra float64, d *delay, packet int) float64 {
	if d.short() || d.jitter() > 0 {
		return 0
	}
	packets := max(extra-l.minExtra, 0) / (lookGain - 1)
	return packets * float64(packet) / d.base().Seconds()
}

const (
	// We cruise for minPause to maxPause rounds between two looks. (BBR probes in one round of
	// eight.) The number varies so that two controllers don't keep looking at the same time.
	minPause, maxPause = 6, 9

	// shallowPause is the factor by which we lengthen the pause while looks cost packets. It
	// keeps those losses down to 1 %.
	shallowPause = 3
)

// looks is what past looks showed about the path, and what the next look will be like.
type looks struct {
	before uint16 // number of the last look on the previous path; 0 if there was none

	pause int     // rounds to cruise before the next look
	extra float64 // how far its gain exceeds 1, within look.minExtra and look.maxExtra

	inVain     bool // the last look found nothing, and there has been next to no queue since
	shallow    bool // the last look met losses rather than a queue
	payingBack bool // this Drain ends after paybackTime, not when the queue is gone

	fitting fitting
	play    play
}

// found is called after a look that found more rate. others is whether others use the path.
func (l *looks) found(others bool) {
	l.shallow = false
	l.inVain = false
	l.fitting.found(others)
}

// drawPause returns how many rounds to cruise before the next look. It hashes the time, which
// differs between controllers.
func (l *looks) drawPause(t instant) int {
	pause := minPause + int(scatter(t)%(maxPause-minPause+1))
	if l.shallow {
		pause *= shallowPause
	}
	return pause
}

// scatter hashes the time, as a substitute for a random number.
func scatter(t instant) uint64 { return uint64(t) / 1024 * 0x9E3779B97F4A7C15 >> 32 }
