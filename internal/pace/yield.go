package pace

import "time"

const (
	// yieldGain is the part of the estimate at which Yield sends. Others take up the rest
	// by one packet per round trip, so for some seconds nobody's packets are dropped.
	yieldGain = 0.7
	// yieldLosses is the number of losses expected in a Yield, and in the time between
	// two.
	//
	// minYield is the minimum duration of a Yield, because a radio may lose nothing for
	// half a second. maxYield limits the duration. If so little is lost, a loss costs
	// others little as well.
	yieldLosses        = 16
	minYield, maxYield = time.Second, 5 * time.Second
	// yieldGone is the maximum part of the expected losses that remains if they went with
	// our Yield. yieldBack is the minimum part that must return. Of random losses one
	// Yield in 45 shows so few, and two consecutive ones one in 2,000.
	yieldGone, yieldBack = 0.5, 3. / 8
	// backRounds is the number of rounds for which losses may stay away after a Yield.
	// Looks that cause them are 3 maxPause rounds apart.
	backRounds = 40
	// firstYield is the time for which a path is used before the first Yield, because a
	// shorter transfer starves nobody.
	//
	// The pause after a Yield that showed random losses is yieldPause times as long as
	// the Yield took, so it costs 2 % of the rate. If the rate has grown since,
	// laterYield counts instead, because a controller that takes a path from others may
	// soon have all of it.
	firstYield, laterYield, yieldPause = 6 * time.Second, 2 * time.Second, 16
	// risenFactor is the factor above the slowest estimate of a test that shows that the
	// path has changed.
	risenFactor = 1.5
	// decidedRounds is the number of rounds until the packets of a round are decided.
	decidedRounds = 3
)

// A yielding tests whether apparently random losses are random. Random losses do not
// depend on our sending rate. Those of a policer, of CoDel, and of a queue that is too
// short to be seen do. They go when we yield, return when we stop yielding, and go with a
// second Yield.
type yielding struct {
	fates tally   // fates of all packets; a run of lost ones counts as one
	began instant // when the current rate began
	// Number of the round in which the first packets sent at that rate are decided.
	round   int64
	from    tally         // fates at the end of that round, if shown
	shown   bool          // that round ended
	slowest float64       // minimum estimate of this test; 0 = none yet
	next    instant       // when the first Yield may begin
	share   float64       // share of packets lost before the first Yield
	gone    bool          // the losses went with the first Yield
	took    time.Duration // duration of this test's Yields
}

// lost adds a lost packet. consecutive means that the packet sent just before it was lost
// as well.
func (y *yielding) lost(consecutive bool) {
	if !consecutive {
		y.fates.lost++
	}
}

// stateChanged is called when the state changes. Packets of Start, Yield, Compete, Dark
// and Stopped are not sent at the full rate.
func (y *yielding) stateChanged(from, to State, t instant, round int64) {
	switch from {
	case Cruise, Up, Drain, Dip:
		return
	case Start:
		y.slowest = 0 // the path has changed: wantsYield begins a new test
	case Yield:
		if to != Cruise && to != Compete { // the Yield was interrupted
			y.end(t, round)
		}
	}
	y.begin(t, round)
}

// begin starts to count the packets that are sent from now on, because the rate changes.
// round is the number of the current round.
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

// now returns the fates of the packets that were sent at the current rate.
func (y *yielding) now() tally {
	if !y.shown {
		return tally{}
	}
	return tally{lost: y.fates.lost - y.from.lost, acked: y.fates.acked - y.from.acked}
}

// expected returns the number of these packets that would be lost at the earlier share.
func (y *yielding) expected() float64 { return y.share * float64(y.now().count()) }

// suspects reports whether there are losses to test. If there are, it records their
// share. A Yield sends a packet in each interval.
func (y *yielding) suspects(t instant, interval time.Duration) bool {
	now := y.now()
	if t < y.next || now.lost < yieldLosses ||
		time.Duration(yieldLosses/now.share()*float64(interval)) > maxYield {
		return false
	}
	y.share = now.share()
	return true
}

// back reports whether the losses that went with the first Yield have returned. late
// reports whether they had the time to.
func (y *yielding) back(t instant, rtt time.Duration) (back, late bool) {
	back = float64(y.now().lost) >= yieldBack*yieldLosses
	late = y.expected() >= yieldLosses && t-y.began >= max(minYield, backRounds*rtt)
	return back, late
}

// end ends the test.
func (y *yielding) end(t instant, round int64) {
	*y = yielding{fates: y.fates, slowest: y.slowest, next: t + max(firstYield, yieldPause*y.took)}
	y.begin(t, round)
}

// restart begins a new test, of losses that the current rate causes.
func (y *yielding) restart(t instant, round int64) {
	first := y.slowest == 0
	y.end(t, round)
	if !first {
		y.next = t + laterYield
	}
}

// wantsYield reports whether a Yield is due, the first of a test or the second. It ends a
// test whose losses have not returned.
func (c *Controller) wantsYield(t instant) bool {
	y := &c.yielding
	rate := c.assumedRate()
	if y.slowest == 0 || rate > risenFactor*y.slowest {
		y.restart(t, c.round.number)
		y.slowest = rate
	}
	y.slowest = min(y.slowest, rate)
	if !y.gone {
		return y.suspects(t, sendTime(c.cfg.Packet, yieldGain*rate))
	}
	back, late := y.back(t, c.delay.base())
	if late && !back {
		y.end(t, c.round.number)
	}
	return back
}

// beginYield enters Yield.
func (c *Controller) beginYield(t instant) {
	c.yielding.begin(t, c.round.number)
	c.enter(Yield, t)
}

// stepYield ends Yield when it shows something, or when somebody fills a queue.
func (c *Controller) stepYield(t instant) {
	y := &c.yielding
	switch {
	case float64(y.now().lost) > yieldGone*max(y.expected(), yieldLosses),
		c.flooded(), c.queue > 2*c.delay.target(), t-c.since > 2*maxYield:
		// Too many losses end the Yield even before its time, because random losses then
		// cost less.
		c.endTest(t)
	case y.expected() < yieldLosses || t-c.since < minYield:
	case y.gone:
		c.enterSharing(t)
	default:
		y.gone = true
		y.took += t - c.since
		c.enter(Cruise, t)
	}
}

// endTest ends the test, because the losses are random, and continues as before.
func (c *Controller) endTest(t instant) {
	c.yielding.took += t - c.since
	c.yielding.end(t, c.round.number)
	c.enter(Cruise, t)
}
