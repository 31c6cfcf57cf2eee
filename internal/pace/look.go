package pace

import "time"

const (
	// lookGain is the gain of a look, as in BBR. In a round trip it makes a queue of a
	// quarter of a round trip, which is the target.
	lookGain = 1.25
	// maxGain limits the gain when the path is shared.
	maxGain = 2
	// swiftGain is the gain of a swift look, which lasts the part swiftPart of a round
	// trip.
	swiftGain, swiftPart = 2, 0.2
	// minLookPackets is the number of packets of a look that must have arrived or be lost
	// to show a rate. With fewer, two lost packets that count as passed add a fifth to
	// the rate by chance.
	minLookPackets = 8
	// paidPart is the part of the rate added by a look that must arrive for the look to
	// have found more. Of two controllers that share a full bottleneck, the one that
	// looks gets half of what it adds, at the other's cost.
	paidPart = 0.8
	// lookRounds is the maximum number of rounds until the packets of a look are decided.
	lookRounds = 4
)

// A look is a trial of a higher rate.
//
// A swift look sends at twice the rate for a fifth of a round trip. It sends about as
// much beyond the rate as another look does in a whole round trip, and shows sooner
// whether there is room. It is for paths about whose other users nothing is known.
type look struct {
	number   uint16  // counts looks; 0 = there was none
	swift    bool    // it is a swift look
	minExtra float64 // minimum excess of its gain over 1
	// Maximum excess of its gain over 1, for a short queue to hold what the look adds; 0
	// = no limit.
	maxExtra float64
	fits     bool          // the look is too small to lose packets by itself; see fitting.fits
	from     float64       // estimate when it began, in bytes per second
	until    int64         // number of the round in which it is closed at the latest; 0 = it is closed
	outcome  tally         // fates of its packets
	queue    time.Duration // queue when it began
	peak     time.Duration // maximum queue since then
}

// drops reports whether losses of a full queue count as the look's own. While the look is
// open they do, because it filled the queue itself. But if others recently filled the
// queue, and the look fits into it, the losses are theirs, and the controller yields.
func (l *look) drops(others bool) bool { return l.until > 0 && !(l.fits && others) }

// openLook begins a look.
func (c *Controller) openLook(t instant, swift bool) {
	c.enter(Up, t)
	maxExtra := c.looks.fitting.maxExtra(t, &c.delay, c.fastest, c.assumedRate())
	c.look = look{
		number:   c.look.number + 1,
		swift:    swift,
		minExtra: c.looks.play.lookGain(t) - 1,
		maxExtra: maxExtra,
		fits:     c.looks.fitting.fits(maxExtra),
		from:     c.Estimate(),
		until:    c.round.number + lookRounds,
		queue:    c.queue,
	}
}

// lookTime returns the time for which a look sends faster: the time that a sample of the
// rate takes. In a shorter look a sample would show only a part of its rate.
//
// A swift look has shorter samples. It lasts longer than the jitter, and sends at least
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
// All controllers that share a bottleneck should add the same number of bytes, a quarter
// of its whole rate, so a smaller share grows faster. The queue that the last look made
// shows what part of the whole our rate is; see closeLook.
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

// payback returns the gain after a look: as far below 1 as the look's gain was above it,
// but not below emptyGain.
func (c *Controller) payback() float64 { return max(2-c.push(), emptyGain) }

// stepUp ends the look early if the queue has grown.
func (c *Controller) stepUp(t instant, b batch) {
	if target := c.delay.target(); c.queue > target || b.lost > 0 && c.queue > target/2 {
		c.endLook(t)
	}
}

// lapseLook ends a look, and the drain that pays it back, when their time is over, even
// if no ack arrives.
func (c *Controller) lapseLook(t instant) {
	switch {
	case c.state == Up && t-c.since > c.lookTime():
		c.endLook(t)
	case c.state == Drain && c.looks.payingBack && t-c.since >= c.paybackTime():
		c.enter(Cruise, t)
	}
}

// paybackTime returns the time that payback takes to compensate for the look's excess.
func (c *Controller) paybackTime() time.Duration {
	return time.Duration(float64(c.lookTime()) * (c.push() - 1) / (1 - c.payback()))
}

// endLook ends the faster sending of a look. The look stays open: its packets are decided
// during the drain that follows. On a narrow path that drain lasts until the queue is
// gone.
func (c *Controller) endLook(t instant) {
	c.enter(Drain, t)
	c.looks.payingBack = !c.delay.narrow()
}

// afterLook checks the queue in the drain after a look. If the look made a queue of more
// than twice the target, afterLook trims the estimate and makes the drain last until the
// queue is gone.
//
// Otherwise the drain ends after paybackTime. The queue is seen a round trip late, and
// the bottleneck would be idle while the controller waits to see it gone.
func (c *Controller) afterLook() {
	if c.queue > 2*c.delay.target() {
		c.looks.payingBack = false
		c.trimIfSteady()
	}
}

// judgeLook closes a look once it has found more rate, or once all its packets are
// decided. It reports whether the look has found more.
func (c *Controller) judgeLook(t instant) (found bool) {
	l := &c.look
	if l.until == 0 {
		return false
	}
	l.peak = max(l.peak, c.queue)
	switch {
	case c.hasFound(t):
		l.until = 0
		c.looks.shallow = false
		c.looks.inVain = false
		c.looks.fitting.found(c.competition.lately(t))
		return true
	case c.round.number >= l.until:
		c.closeLook()
	}
	return false
}

// hasFound reports whether the look has found more rate. A higher estimate does not count
// in three cases.
//
// There was a queue above the target: then the rate is that of somebody else, who drains.
//
// A start met losses just before: behind a policer more rate lasts only as long as the
// bucket.
//
// More was lost than random loss explains; a run of losses counts as one.
func (c *Controller) hasFound(t instant) bool {
	l, target := &c.look, c.delay.target()
	more := l.outcome.count() >= minLookPackets && l.outcome.events().share() <= unexplainedLoss &&
		c.Estimate() > l.from*(1+paidPart*(c.push()-1))
	return more && c.queue < target/2 && l.peak <= target && c.state != Compete && !c.startDroppedLately(t)
}

// closeLook closes a look that has found nothing. If the look saw a queue, it took rate
// from others, and closeLook returns that rate.
//
// closeLook sets the gain of the next look by the queue that this one made. The next look
// should make a queue of look.minExtra round trips, but adds at most twice as much as
// this one, and at least half. After losses it adds the minimum. The path is shallow if
// the look lost packets and the rate hardly grew.
//
// A look in vain delays the next one. A look with too few packets to find anything counts
// as one in vain only if no start met losses. Otherwise an outage may have swallowed the
// start's packets, and left a rate of two packets per round trip.
func (c *Controller) closeLook() {
	l := &c.look
	l.until = 0
	c.looks.inVain = l.outcome.count() >= minLookPackets || c.start.dropped == 0
	if c.state != Compete && l.peak > c.delay.aim() && c.rates.value() > l.from {
		c.rates.set(c.filling, l.from)
	}
	dropped := l.outcome.events().above(c.usual())
	c.looks.shallow = dropped && c.Estimate() < l.from*1.05
	if dropped {
		c.looks.extra = 0
		if c.looks.shallow && l.peak > c.delay.depth/2 { // a policer has no queue
			c.looks.fitting.drop(c.now)
		}
		return
	}
	// wanted rise of the queue, in seconds
	wanted := l.minExtra * c.delay.base().Seconds()
	rise := max(l.peak-l.queue, 1).Seconds() // rise seen, in seconds
	// added by the look, in round trips at the rate
	added := (c.push() - 1) * c.lookTime().Seconds() / c.delay.base().Seconds()
	c.looks.extra = min(added*min(max(wanted/rise, 0.5), 2), maxGain-1)
}

const (
	// minPause and maxPause are the number of rounds between two looks. BBR looks in one
	// round of 8. The number varies, so two controllers do not look at the same time for
	// long.
	minPause, maxPause = 6, 9
	// shallowPause is the factor that lengthens the pause if a look costs losses. With it
	// those losses are 1 % of the packets.
	shallowPause = 3
)

// looks holds what past looks showed about the path, and the parameters of the next one.
type looks struct {
	pause int     // rounds of Cruise before the next look
	extra float64 // excess of the next look's gain over 1, within look.minExtra and look.maxExtra
	// The last look found nothing, and every round since then had next to no queue: a new
	// look need not hurry.
	inVain     bool
	shallow    bool // the last look met loss instead of a queue: the path drops what exceeds its rate
	payingBack bool // the present Drain follows a look that made no queue above twice the target
	fitting    fitting
	play       play
}

// distance returns the number of rounds to cruise before the next look. It depends on the
// time, which differs between controllers.
func (l *looks) distance(t instant) int {
	pause := minPause + int(scatter(t)%(maxPause-minPause+1))
	if l.shallow {
		pause *= shallowPause
	}
	return pause
}

// scatter returns a hash of the time, in place of a random number.
func scatter(t instant) uint64 { return uint64(t) / 1024 * 0x9E3779B97F4A7C15 >> 32 }
