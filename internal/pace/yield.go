package pace

import "time"

const (
	// yieldGain is the part of the estimate at which we send in a Yield. Since others take up the
	// rest by only one packet per round trip, nobody's packets are dropped for some seconds.
	yieldGain = 0.7

	// A Yield lasts until yieldLosses losses should have occurred, and there must be as many losses
	// between two Yields. It takes at least minYield, because a radio may lose nothing for half a
	// second, and at most maxYield, because rarer losses don't hurt others much.
	yieldLosses        = 16
	minYield, maxYield = time.Second, 5 * time.Second

	// Losses have stopped if no more than yieldGone of those expected remain, and they are back
	// when yieldBack of those expected occur. Random losses seem to stop in one of 45 Yields, and
	// in two Yields in a row once in 2,000 times.
	yieldGone, yieldBack = 0.5, 3. / 8

	// backRounds is how many rounds the losses may take to come back after a Yield. The looks that
	// cause them may be shallowPause*maxPause rounds apart.
	backRounds = 40

	// firstYield is how long we use a path before the first Yield. A shorter transfer can't starve
	// other flows.
	//
	// After Yields that showed random losses, we wait yieldPause times as long as they took, so
	// that they cost only 2 % of the rate. If the rate grows in the meantime, we wait only for
	// laterYield, because a controller that takes a path from others may soon have all of it.
	firstYield, laterYield, yieldPause = 6 * time.Second, 2 * time.Second, 16

	// risenFactor is how far the estimate must rise above the minimum during a test to show that
	// the path has changed.
	risenFactor = 1.5

	// decidedRounds is how many rounds pass until the fates of a round's packets are known.
	decidedRounds = 3
)

// A yielding is a test of whether losses that seem random really are. For this, the controller
// sends less for a while (a Yield).
//
// Random losses don't depend on how fast we send. Losses at a policer, at CoDel, or in a queue too
// short to see do: they stop when we yield, come back afterwards, and stop again in a second Yield.
type yielding struct {
	fates tally // of all packets; a run of losses counts as one

	// Packets sent at the current rate.
	began instant // when we began to send at it
	round int64   // round in which the fates of the first of them become known
	shown bool    // that round has ended
	from  tally   // fates at its end, if shown

	// The test.
	next    instant       // earliest time of the first Yield
	slowest float64       // minimum estimate during this test; 0 = none yet
	share   float64       // share of packets lost before the first Yield
	gone    bool          // the losses stopped in the first Yield
	took    time.Duration // how long this test's Yields have taken
}

// lost adds a lost packet. consecutive means that the packet sent right before it was lost too.
func (y *yielding) lost(consecutive bool) {
	if !consecutive {
		y.fates.lost++
	}
}

// stateChanged is called when the state changes.
func (y *yielding) stateChanged(from, to State, t instant, round int64) {
	switch from {
	case Cruise, Up, Drain, Dip:
		return // we go on sending at about the full rate
	case Start:
		y.slowest = 0 // the path has changed, so checkYield will begin a new test
	case Yield:
		if to != Cruise && to != Compete {
			y.end(t, round) // the Yield was interrupted
		}
	}
	y.begin(t, round)
}

// begin starts counting from the packets sent from now on, because the rate changes. round is the
// number of the current round.
func (y *yielding) begin(t instant, round int64) {
	y.began = t
	y.round = round + decidedRounds
	y.shown = false
}

// roundOver ends a round.
func (y *yielding) roundOver(round int64) {
	y.shown = round >= y.round
	if round <= y.round {
		y.from = y.fates
	}
}

// now returns the fates of the packets sent at the current rate.
func (y *yielding) now() tally {
	if !y.shown {
		return tally{}
	}
	return tally{lost: y.fates.lost - y.from.lost, acked: y.fates.acked - y.from.acked}
}

// expected returns how many of these packets would have been lost at the share before the first
// Yield.
func (y *yielding) expected() float64 { return y.share * float64(y.now().count()) }

// due reports whether there are enough losses for a first Yield, so that a test can begin.
// interval is the time between two packets of a Yield.
func (y *yielding) due(t instant, interval time.Duration) bool {
	now := y.now()
	return t >= y.next && now.lost >= yieldLosses &&
		time.Duration(yieldLosses/now.share()*float64(interval)) <= maxYield
}

// back reports whether the losses that stopped in the first Yield are back.
func (y *yielding) back() bool { return float64(y.now().lost) >= yieldBack*yieldLosses }

// overdue reports whether the losses had enough time to come back.
func (y *yielding) overdue(t instant, rtt time.Duration) bool {
	return y.expected() >= yieldLosses && t-y.began >= max(minYield, backRounds*rtt)
}

// end ends the test, and schedules the next one.
func (y *yielding) end(t instant, round int64) {
	*y = yielding{fates: y.fates, slowest: y.slowest, next: t + max(firstYield, yieldPause*y.took)}
	y.begin(t, round)
}

// restart begins a new test, of the losses at the current rate.
func (y *yielding) restart(t instant, round int64) {
	first := y.slowest == 0
	y.end(t, round)
	if !first {
		y.next = t + laterYield
	}
}

// checkYield reports whether the first or the second Yield of a test is due. It ends a test whose
// losses don't come back in time, and begins another if the rate has risen.
func (c *Controller) checkYield(t instant) bool {
	y := &c.yielding
	rate := c.assumedRate()
	if y.slowest == 0 || rate > risenFactor*y.slowest {
		y.restart(t, c.round.number)
		y.slowest = rate
	}
	y.slowest = min(y.slowest, rate)
	if y.gone {
		back := y.back()
		if !back && y.overdue(t, c.delay.base()) {
			y.end(t, c.round.number)
		}
		return back
	}
	if !y.due(t, sendTime(c.cfg.Packet, yieldGain*rate)) {
		return false
	}
	y.share = y.now().share()
	return true
}

// beginYield enters Yield.
func (c *Controller) beginYield(t instant) {
	c.yielding.begin(t, c.round.number)
	c.enter(Yield, t)
}

// stepYield ends a Yield that has shown its result, or in which others fill a queue.
func (c *Controller) stepYield(t instant) {
	y := &c.yielding
	switch {
	case float64(y.now().lost) > yieldGone*max(y.expected(), yieldLosses):
		// There are too many losses already, so the rest of the Yield would only cost time.
		c.endTest(t)
	case c.flooded(), c.queue > 2*c.delay.target(), t-c.since > 2*maxYield:
		c.endTest(t)
	case y.expected() < yieldLosses || t-c.since < minYield:
		// Too early to tell.
	case y.gone:
		c.enterSharing(t) // the losses stopped twice, so they are our doing
	default:
		y.gone = true
		y.took += t - c.since
		c.enter(Cruise, t)
	}
}

// endTest ends a test whose losses are random, and continues as before.
func (c *Controller) endTest(t instant) {
	c.yielding.took += t - c.since
	c.yielding.end(t, c.round.number)
	c.enter(Cruise, t)
}
