package pace

import "time"

const (
	// yieldGain is the part of the estimate at which Yield sends. Others take up the
	// rest by a packet a round trip, so for some seconds nobody's packets are dropped.
	yieldGain = 0.7
	// yieldLosses is how many losses are expected in a Yield, and in the time between two.
	// leastYield is how long a Yield lasts at least: a radio may lose nothing for half a
	// second. mostYield limits it: if so little is lost, a loss costs others little as well.
	yieldLosses           = 16
	leastYield, mostYield = time.Second, 5 * time.Second
	// yieldGone is the part of the expected losses that remains at most if they
	// went with our Yield, and yieldBack the part that must return at least. Of
	// random losses one Yield in 45 shows so few, and two in a row one in 2,000.
	yieldGone, yieldBack = 0.5, 3. / 8
	// backRounds is for how many rounds losses may stay away after a Yield:
	// looks that cause them are 3 mostPause rounds apart.
	backRounds = 40
	// firstYield is how long a path is used before the first Yield: a shorter transfer starves
	// nobody. The pause after a Yield that showed random losses is yieldPause times as long as
	// the Yield took, so that it costs 2 % of the rate. If the rate has grown since, laterYield
	// counts instead: a controller that takes a path from others may soon have all of it.
	firstYield, laterYield, yieldPause = 6 * time.Second, 2 * time.Second, 16
	// risen is the factor above the slowest estimate of a test that shows that
	// the path has changed.
	risen = 1.5
	// decidedRounds is how many rounds pass until the packets of a round are decided.
	decidedRounds = 3
)

// A yielding tests whether losses that seem random are. Random losses do not depend on
// how much we send. Those of a policer, of CoDel, and of a queue that is too short to
// be seen do: they go when we yield, return when we do, and go with a second Yield.
type yielding struct {
	fates   tally         // fates of all packets; a run of lost ones counts as one
	began   instant       // when the present rate began
	round   int64         // number of the round in which the first packets that were sent at that rate are decided
	from    tally         // fates at the end of that round, if shown
	shown   bool          // that round has ended
	slowest float64       // the least estimate of this test; 0 = none yet
	next    instant       // when the first Yield may begin
	share   float64       // share of packets lost before the first Yield
	gone    bool          // the losses went with the first Yield
	took    time.Duration // how long the Yields of this test have lasted
}

// lost adds a lost packet. consecutive means that the packet sent before it was lost as well.
func (y *yielding) lost(consecutive bool) {
	if !consecutive {
		y.fates.lost++
	}
}

// leave is called when the state changes, in a round. Packets of Start, Yield,
// Compete, Dark and Stopped are not sent at the full rate.
func (y *yielding) leave(from, to State, t instant, round int64) {
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

// begin starts to count the packets that are sent from now on, because the rate
// changes; round is the number of the present round.
func (y *yielding) begin(t instant, round int64) {
	y.began, y.round, y.shown = t, round+decidedRounds, false
}

// roundOver ends a round.
func (y *yielding) roundOver(round int64) {
	if y.shown = round >= y.round; round <= y.round {
		y.from = y.fates
	}
}

// now returns the fates of the packets that were sent at the present rate.
func (y *yielding) now() tally {
	if !y.shown {
		return tally{}
	}
	return tally{lost: y.fates.lost - y.from.lost, acked: y.fates.acked - y.from.acked}
}

// expected returns how many of these packets would be lost at the share from before.
func (y *yielding) expected() float64 { return y.share * float64(y.now().count()) }

// suspects reports whether there are losses to test, and if so records their
// share. A Yield sends a packet in each interval.
func (y *yielding) suspects(t instant, interval time.Duration) bool {
	now := y.now()
	if t < y.next || now.lost < yieldLosses || time.Duration(yieldLosses/now.share()*float64(interval)) > mostYield {
		return false
	}
	y.share = now.share()
	return true
}

// back reports whether the losses that went with the first Yield have returned;
// late means that they have had the time to.
func (y *yielding) back(t instant, rtt time.Duration) (back, late bool) {
	return float64(y.now().lost) >= yieldBack*yieldLosses, y.expected() >= yieldLosses && t-y.began >= max(leastYield, backRounds*rtt)
}

// end ends the test.
func (y *yielding) end(t instant, round int64) {
	*y = yielding{fates: y.fates, slowest: y.slowest, next: t + max(firstYield, yieldPause*y.took)}
	y.begin(t, round)
}

// anew begins a new test, of losses that the present rate causes.
func (y *yielding) anew(t instant, round int64) {
	first := y.slowest == 0
	if y.end(t, round); !first {
		y.next = t + laterYield
	}
}

// wantsYield reports whether it is time for a Yield, the first of a test or the
// second. It ends a test whose losses have not returned.
func (c *Controller) wantsYield(t instant) bool {
	y, rate := &c.yielding, c.supposed()
	if y.slowest == 0 || rate > risen*y.slowest {
		y.anew(t, c.round.number)
		y.slowest = rate
	}
	y.slowest = min(y.slowest, rate)
	if !y.gone {
		return y.suspects(t, over(c.cfg.Packet, yieldGain*rate))
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
	case float64(y.now().lost) > yieldGone*max(y.expected(), yieldLosses), // even before its time, because then random losses cost less
		c.flooded(), c.queue > 2*c.delay.target(), t-c.since > 2*mostYield:
		c.endTest(t)
	case y.expected() < yieldLosses || t-c.since < leastYield:
	case y.gone:
		c.share(t)
	default:
		y.gone, y.took = true, y.took+t-c.since
		c.enter(Cruise, t)
	}
}

// endTest ends the test, because the losses are random, and continues as before.
func (c *Controller) endTest(t instant) {
	c.yielding.took += t - c.since
	c.yielding.end(t, c.round.number)
	c.enter(Cruise, t)
}
