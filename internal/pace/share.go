package pace

import (
	"math"
	"time"
)

const (
	// sharingGain is the factor by which packets are sent faster than a window in each round
	// trip. Where there is no queue, lookGain would lose packets at four fifths of the rate.
	sharingGain = 1.02
	// surgeGain is the factor by which a surge raises the window at most at a time. leastGoal
	// is the factor by which the window must at least have been raised before losses count as
	// random: that much more of a full path loses more than anybody could overlook.
	surgeGain, leastGoal = 2, 2.5
	// leastSurge, and surgeTrips round trips, are how long a window is kept at least
	// that has reached the goal: others who have answered a loss take their part again.
	leastSurge, surgeTrips = time.Second, 40
	// leastLosses is how many losses show how much is lost while no surge is
	// on. If there are fewer in mostYield, little is lost.
	leastLosses = 4
	// leastRest, and restTrips round trips, are the least time from one surge
	// to the next. The rest doubles with each surge that fails, up to mostRest,
	// because a surge makes others lose packets.
	leastRest, restTrips, mostRest = time.Second / 2, 16, 32 * time.Second
	// randomLosses is how many losses a surge that reaches its goal must meet
	// to show that they are random. If there are fewer, the path has room.
	randomLosses = 6
	// mostProofs is how many surges in a row must show that. One may do so by
	// chance, if others leave the path just then.
	mostProofs = 2
)

// A sharing is the state of a competition on a path that drops instead of queueing. Its
// window grows and is cut as in New Reno, whoever else may be there, because neither
// the lack of a queue nor the lack of a loss shows that nobody is. Random losses would
// keep that window small forever, so now and then a surge doubles it, again and again:
// losses that others or we ourselves cause increase then, and random ones do not.
type sharing struct {
	on bool
	// A flood began it, and no Yield has shown that the path drops instead of
	// queueing: a queue that is seen ends it.
	byFlood bool
	first   float64       // the window when it began
	next    instant       // when the next surge may begin
	rest    time.Duration // time from the last surge to the next
	proofs  int           // surges in a row that have shown random losses

	surges bool    // a surge is on
	base   float64 // the window when it began
	before float64 // the window before it was last doubled
	goal   float64 // the window at which the surge shows something
	usual  tally   // fates before the surge
}

// exceeds reports whether more was lost than the usual share explains, which is
// itself known by few losses: by three standard deviations.
func (s *sharing) exceeds(now tally) bool {
	before := float64(s.usual.lost + 1)
	expected := before * float64(now.count()) / float64(s.usual.count())
	return float64(now.lost) > expected+3*math.Sqrt(expected+expected*expected/before)
}

// share enters Compete on a path that drops instead of queueing.
func (c *Controller) share(t instant) {
	c.congestion.forget()
	c.queueing.rateBefore = c.Estimate()
	c.compete(t)
	c.beginSharing(t, false)
	c.cutWindow(t)
}

// beginSharing makes the competition that has just begun one on such a path.
// byFlood is true if no Yield has shown that it is.
func (c *Controller) beginSharing(t instant, byFlood bool) {
	c.competition.sharing = sharing{on: true, byFlood: byFlood, first: c.competition.window}
	c.rest(t, 0)
}

// rest delays the next surge, by d or the least rest if that is longer.
func (c *Controller) rest(t instant, d time.Duration) {
	s := &c.competition.sharing
	s.surges, s.rest = false, max(d, leastRest, restTrips*c.delay.base())
	s.next = t + s.rest
	c.yielding.begin(t, c.round.number)
}

// stepShare is congestion avoidance, with a surge now and then.
func (c *Controller) stepShare(t instant, b batch, ended bool) {
	switch {
	case c.competition.sharing.byFlood && c.queue > c.delay.target(): // the path has a queue after all
		c.competition.sharing = sharing{}
	case c.competition.sharing.surges:
		c.stepSurge(t)
	case b.lately && (b.full || c.flooded() || c.queue > c.delay.target()):
		c.competition.seen = t
		c.cutWindow(t)
	case ended && c.queueing.unmoved.rounds >= longerRounds:
		c.goLonger(t)
	case ended && c.wantsSurge(t):
		c.beginSurge(t)
	case ended:
		c.competition.window += additive * float64(c.cfg.Packet)
	}
}

// wantsSurge reports whether it is time for a surge, and it is known what is lost without one.
func (c *Controller) wantsSurge(t instant) bool {
	y := &c.yielding
	known := y.now().count() >= plenty && (y.now().lost >= leastLosses || t-y.began > mostYield)
	return t >= c.competition.sharing.next && known && !c.flooded() && !c.lacksData()
}

// beginSurge begins a surge.
func (c *Controller) beginSurge(t instant) {
	s := &c.competition.sharing
	s.surges, s.base, s.usual = true, c.competition.window, c.yielding.now()
	s.goal = max(s.first, leastGoal*s.base)
	c.yielding.share = s.usual.share()
	if s.proofs > 0 {
		c.surge(t, s.goal)
	} else {
		c.surge(t, surgeGain*s.base)
	}
}

// surge raises the window, to the goal at most.
func (c *Controller) surge(t instant, window float64) {
	s := &c.competition.sharing
	s.before = c.competition.window
	c.competition.window = min(window, s.goal)
	c.yielding.begin(t, c.round.number)
}

// stepSurge ends a surge if more is lost than before, and raises the window if not.
func (c *Controller) stepSurge(t instant) {
	s, now := &c.competition.sharing, c.yielding.now()
	switch {
	case c.lacksData():
		c.competition.window = s.base
		c.rest(t, s.rest)
	case c.flooded(), c.queue > 2*c.delay.target(), now.count() > 0 && s.exceeds(now):
		c.competition.window, s.proofs = s.before, 0
		c.cutWindow(t)
		c.rest(t, min(2*s.rest, mostRest))
	case now.count() < plenty:
	case c.competition.window < s.goal:
		c.surge(t, surgeGain*c.competition.window)
	case c.surgeIsOver(t):
		c.endSurge(t)
	}
}

// surgeIsOver reports whether the window has been at the goal for long enough,
// and for as many packets as should have met yieldLosses losses.
func (c *Controller) surgeIsOver(t instant) bool {
	held := t - c.yielding.began
	return held >= max(leastSurge, surgeTrips*c.delay.base()) && (c.yielding.expected() >= yieldLosses || held >= mostYield)
}

// endSurge ends a surge that has reached its goal. If fewer packets were lost than before,
// the path has room, and the window stays. If as many were lost, the losses are random.
// Once mostProofs surges have shown that, the controller continues as before it shared.
func (c *Controller) endSurge(t instant) {
	s := &c.competition.sharing
	if lost := c.yielding.now().lost; lost < randomLosses || float64(lost) < yieldGone*c.yielding.expected() {
		s.proofs = 0
		c.rest(t, 0)
		return
	}
	if s.proofs++; s.proofs < mostProofs {
		c.competition.window = s.base
		c.rest(t, 0)
		return
	}
	c.rates.set(c.filling, c.competition.window/max(c.delay.smoothed, 1).Seconds())
	c.yielding.took = leastYield
	c.yielding.end(t, c.round.number)
	c.enter(Cruise, t)
}
