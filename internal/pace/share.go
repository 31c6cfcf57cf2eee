package pace

import (
	"math"
	"time"
)

const (
	// sharingGain is the pacing gain over one window per round trip. It's hardly more than 1,
	// because without a queue, lookGain would exceed the rate of the path, and lose packets, as
	// soon as we have four fifths of it.
	sharingGain = 1.02

	// A surge multiplies the window by surgeGain at each step. Losses can't count as random until
	// the window has grown by the factor minGoal, because a full path then loses far more than its
	// usual share.
	surgeGain, minGoal = 2, 2.5

	// The window stays at the goal for at least minSurge and surgeTrips round trips, so that others
	// that slowed down after a loss have time to take back their part.
	minSurge, surgeTrips = time.Second, 40

	// minLosses is how many losses show the usual share without a surge. If there are fewer within
	// maxYield, the share is small.
	minLosses = 4

	// We rest for at least minRest and restTrips round trips before the next surge. Since a surge
	// makes others lose packets, the rest doubles, up to maxRest, with each surge that fails.
	minRest, restTrips, maxRest = time.Second / 2, 16, 32 * time.Second

	// randomLosses is how many losses a surge must meet at its goal to prove them random. If there
	// are fewer, the path simply has room.
	randomLosses = 6

	// proofsNeeded is how many surges in a row must prove losses random. A single one may do so by
	// chance if others leave the path just then.
	proofsNeeded = 2
)

// A sharing is a competition on a path that drops packets instead of queueing them. Its window
// grows and shrinks as in New Reno. It goes on whether or not there are other flows, because
// without a queue we can't tell.
//
// Since random losses would keep that window small forever, we try a surge from time to time, which
// keeps doubling the window. Losses that we or others cause then increase, but random ones don't.
type sharing struct {
	on      bool
	byFlood bool          // caused by a flood, not proved by a Yield; ends when we see a queue
	first   float64       // the window when it began
	next    instant       // earliest time for the next surge
	rest    time.Duration // from the last surge to the next
	proofs  int           // surges in a row that proved losses random

	// The surge.
	surging bool    // a surge is under way
	base    float64 // the window when it began
	before  float64 // the window before it was last raised
	goal    float64 // the window at which losses may prove random
	usual   tally   // fates before it
}

// exceeds reports whether losses exceed the usual share by more than three standard deviations. It
// allows for the fact that only a few losses show the usual share.
func (s *sharing) exceeds(now tally) bool {
	before := float64(s.usual.lost + 1)
	expected := before * float64(now.count()) / float64(s.usual.count())
	return float64(now.lost) > expected+3*math.Sqrt(expected+expected*expected/before)
}

// enterSharing enters Compete after Yields showed that the path drops packets instead of queueing
// them.
func (c *Controller) enterSharing(t instant) {
	c.congestion.forget()
	c.queueing.rateBefore = c.Estimate()
	c.compete(t)
	c.beginSharing(t)
	c.cutWindow(t)
}

// beginSharing turns a competition that has just begun into a sharing.
func (c *Controller) beginSharing(t instant) {
	c.competition.sharing = sharing{on: true, first: c.competition.window}
	c.delaySurge(t, 0)
}

// delaySurge ends any surge, and puts off the next one by d or by the minimum rest, whichever is
// longer.
func (c *Controller) delaySurge(t instant, d time.Duration) {
	s := &c.competition.sharing
	s.surging = false
	s.rest = max(d, minRest, restTrips*c.delay.base())
	s.next = t + s.rest
	c.yielding.begin(t, c.round.number)
}

// stepShare does congestion avoidance, with occasional surges.
func (c *Controller) stepShare(t instant, b batch, ended bool) {
	switch {
	case c.competition.sharing.byFlood && c.queue > c.delay.target():
		c.competition.sharing = sharing{} // the path has a queue after all
	case c.competition.sharing.surging:
		c.stepSurge(t)
	case b.sinceCut && (b.full || c.flooded() || c.queue > c.delay.target()):
		c.competition.seen = t
		c.cutWindow(t)
	case ended && c.queueing.unmoved.rounds >= longerRounds:
		c.restartOnLongerPath(t)
	case ended && c.surgeDue(t):
		c.beginSurge(t)
	case ended:
		c.competition.window += additive * float64(c.cfg.Packet)
	}
}

// surgeDue reports whether a surge is due and we know what is usually lost without one.
func (c *Controller) surgeDue(t instant) bool {
	y := &c.yielding
	known := y.now().count() >= plentyPackets && (y.now().lost >= minLosses || t-y.began > maxYield)
	return t >= c.competition.sharing.next && known && !c.flooded() && !c.lacksData()
}

// beginSurge begins a surge. After a surge that proved losses random, the next one goes straight to
// its goal.
func (c *Controller) beginSurge(t instant) {
	s := &c.competition.sharing
	s.surging = true
	s.base = c.competition.window
	s.usual = c.yielding.now()
	s.goal = max(s.first, minGoal*s.base)
	c.yielding.share = s.usual.share()
	if s.proofs > 0 {
		c.surge(t, s.goal)
	} else {
		c.surge(t, surgeGain*s.base)
	}
}

// surge raises the window, but not beyond the goal.
func (c *Controller) surge(t instant, window float64) {
	s := &c.competition.sharing
	s.before = c.competition.window
	c.competition.window = min(window, s.goal)
	c.yielding.begin(t, c.round.number)
}

// stepSurge goes on with a surge until more is lost than usual.
func (c *Controller) stepSurge(t instant) {
	s := &c.competition.sharing
	now := c.yielding.now()
	switch {
	case c.lacksData():
		// We can't fill the window, so it proves nothing.
		c.competition.window = s.base
		c.delaySurge(t, s.rest)
	case c.flooded(), c.queue > 2*c.delay.target(), now.count() > 0 && s.exceeds(now):
		// The surge fails. Go back to the last window without such losses, and answer them.
		c.competition.window = s.before
		s.proofs = 0
		c.cutWindow(t)
		c.delaySurge(t, min(2*s.rest, maxRest))
	case now.count() < plentyPackets:
		// Too early to tell.
	case c.competition.window < s.goal:
		c.surge(t, surgeGain*c.competition.window)
	case c.surgeIsOver(t):
		c.endSurge(t)
	}
}

// surgeIsOver reports whether the window has been at its goal for long enough, and for enough
// packets to expect yieldLosses losses.
func (c *Controller) surgeIsOver(t instant) bool {
	held := t - c.yielding.began
	return held >= max(minSurge, surgeTrips*c.delay.base()) &&
		(c.yielding.expected() >= yieldLosses || held >= maxYield)
}

// endSurge ends a surge that has reached its goal.
func (c *Controller) endSurge(t instant) {
	s := &c.competition.sharing
	lost := c.yielding.now().lost
	if lost < randomLosses || float64(lost) < yieldGone*c.yielding.expected() {
		// Less was lost than before, so the path has room. Keep the window.
		s.proofs = 0
		c.delaySurge(t, 0)
		return
	}
	s.proofs++ // the share lost is the same as with the smaller window
	if s.proofs < proofsNeeded {
		c.competition.window = s.base
		c.delaySurge(t, 0)
		return
	}
	// The losses are random, so stop sharing and go on as before.
	c.rates.set(c.filling, c.competition.rate(c.delay.smoothed))
	c.yielding.took = minYield
	c.yielding.end(t, c.round.number)
	c.enter(Cruise, t)
}
