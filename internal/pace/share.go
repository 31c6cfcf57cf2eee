package pace

import (
	"math"
	"time"
)

const (
	// sharingGain is the pacing gain over one window per round trip. Where there is no
	// queue, lookGain would lose packets at four fifths of the rate.
	sharingGain = 1.02
	// surgeGain is the maximum factor by which a surge raises the window at a time.
	//
	// minGoal is the minimum factor by which the window must have been raised before
	// losses count as random. On a full path, so large an excess loses more than anybody
	// could overlook.
	surgeGain, minGoal = 2, 2.5
	// A window that has reached the goal is kept for at least minSurge and surgeTrips
	// round trips, while others who responded to a loss take their part again.
	minSurge, surgeTrips = time.Second, 40
	// minLosses is the number of losses that show how much is lost while no surge is on.
	// If there are fewer in maxYield, little is lost.
	minLosses = 4
	// minRest and restTrips round trips are the minimum time from one surge to the next.
	// The rest doubles with each surge that fails, up to maxRest, because a surge makes
	// others lose packets.
	minRest, restTrips, maxRest = time.Second / 2, 16, 32 * time.Second
	// randomLosses is the number of losses that a surge which reaches its goal must meet
	// to show that they are random. If there are fewer, the path has room.
	randomLosses = 6
	// proofsNeeded is the number of consecutive surges that must show this. One may do so by
	// chance, if others leave the path just then.
	proofsNeeded = 2
)

// A sharing is the state of a competition on a path that drops instead of queueing. Its
// window grows and is cut as in New Reno, whoever else may be there, because neither the
// lack of a queue nor the lack of a loss shows that nobody is.
//
// Random losses would keep that window small forever. So from time to time a surge
// doubles the window, again and again. Losses that others or we ourselves cause increase
// then, and random ones do not.
type sharing struct {
	on bool
	// A flood began it, and no Yield has shown that the path drops instead of queueing.
	// It ends when a queue is seen.
	byFlood bool
	first   float64       // the window when it began
	next    instant       // when the next surge may begin
	rest    time.Duration // time from the last surge to the next
	proofs  int           // consecutive surges that showed random losses

	surges bool    // a surge is on
	base   float64 // the window when it began
	before float64 // window before it was last doubled
	goal   float64 // window at which the surge shows something
	usual  tally   // fates before the surge
}

// exceeds reports whether more was lost than the usual share explains, by three standard
// deviations. The usual share is itself known by few losses.
func (s *sharing) exceeds(now tally) bool {
	before := float64(s.usual.lost + 1)
	expected := before * float64(now.count()) / float64(s.usual.count())
	return float64(now.lost) > expected+3*math.Sqrt(expected+expected*expected/before)
}

// enterSharing enters Compete on a path that drops instead of queueing.
func (c *Controller) enterSharing(t instant) {
	c.congestion.forget()
	c.queueing.rateBefore = c.Estimate()
	c.compete(t)
	c.beginSharing(t, false)
	c.cutWindow(t)
}

// beginSharing turns the competition that has just begun into one on a path that drops
// instead of queueing. byFlood is true if no Yield has shown that the path does.
func (c *Controller) beginSharing(t instant, byFlood bool) {
	c.competition.sharing = sharing{on: true, byFlood: byFlood, first: c.competition.window}
	c.delaySurge(t, 0)
}

// delaySurge delays the next surge by d, or by the minimum rest if that is longer.
func (c *Controller) delaySurge(t instant, d time.Duration) {
	s := &c.competition.sharing
	s.surges = false
	s.rest = max(d, minRest, restTrips*c.delay.base())
	s.next = t + s.rest
	c.yielding.begin(t, c.round.number)
}

// stepShare is congestion avoidance with a surge now and then.
func (c *Controller) stepShare(t instant, b batch, ended bool) {
	switch {
	case c.competition.sharing.byFlood && c.queue > c.delay.target(): // the path has a queue after all
		c.competition.sharing = sharing{}
	case c.competition.sharing.surges:
		c.stepSurge(t)
	case b.sinceCut && (b.full || c.flooded() || c.queue > c.delay.target()):
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

// wantsSurge reports whether a surge is due, and the loss without one is known.
func (c *Controller) wantsSurge(t instant) bool {
	y := &c.yielding
	known := y.now().count() >= plentyPackets && (y.now().lost >= minLosses || t-y.began > maxYield)
	return t >= c.competition.sharing.next && known && !c.flooded() && !c.lacksData()
}

// beginSurge begins a surge.
func (c *Controller) beginSurge(t instant) {
	s := &c.competition.sharing
	s.surges = true
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

// surge raises the window, at most to the goal.
func (c *Controller) surge(t instant, window float64) {
	s := &c.competition.sharing
	s.before = c.competition.window
	c.competition.window = min(window, s.goal)
	c.yielding.begin(t, c.round.number)
}

// stepSurge ends a surge if more is lost than before, and otherwise raises the window.
func (c *Controller) stepSurge(t instant) {
	s := &c.competition.sharing
	now := c.yielding.now()
	switch {
	case c.lacksData():
		c.competition.window = s.base
		c.delaySurge(t, s.rest)
	case c.flooded(), c.queue > 2*c.delay.target(), now.count() > 0 && s.exceeds(now):
		c.competition.window = s.before
		s.proofs = 0
		c.cutWindow(t)
		c.delaySurge(t, min(2*s.rest, maxRest))
	case now.count() < plentyPackets:
	case c.competition.window < s.goal:
		c.surge(t, surgeGain*c.competition.window)
	case c.surgeIsOver(t):
		c.endSurge(t)
	}
}

// surgeIsOver reports whether the window was at the goal for long enough, and for as many
// packets as should have met yieldLosses losses.
func (c *Controller) surgeIsOver(t instant) bool {
	held := t - c.yielding.began
	return held >= max(minSurge, surgeTrips*c.delay.base()) &&
		(c.yielding.expected() >= yieldLosses || held >= maxYield)
}

// endSurge ends a surge that reached its goal.
//
// If fewer packets were lost than before, the path has room, and the window stays. If as
// many were lost, the losses are random. Once proofsNeeded surges have shown that, the
// controller continues as before it shared.
func (c *Controller) endSurge(t instant) {
	s := &c.competition.sharing
	if lost := c.yielding.now().lost; lost < randomLosses || float64(lost) < yieldGone*c.yielding.expected() {
		s.proofs = 0
		c.delaySurge(t, 0)
		return
	}
	s.proofs++
	if s.proofs < proofsNeeded {
		c.competition.window = s.base
		c.delaySurge(t, 0)
		return
	}
	c.rates.set(c.filling, c.competition.rate(c.delay.smoothed))
	c.yielding.took = minYield
	c.yielding.end(t, c.round.number)
	c.enter(Cruise, t)
}
