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

	// While sharing, a loss leaves sharingMultiplicative of the window, as in New Reno, but the
	// window grows only half as fast (see additive). Without a queue, windows are a few packets, so
	// New Reno often has to wait for a timeout, and we don't: with multiplicative, four of our
	// flows had two thirds of the path beside four New Renos.
	//
	// If the window has come back to the whole path after an earlier cut, nobody else needs it, and
	// aloneMultiplicative is enough.
	sharingMultiplicative, aloneMultiplicative = 0.5, 0.85

	// A surge multiplies the window by surgeGain at each step. Losses can't count as random until
	// the window has grown by the factor minGoal, because a full path then loses far more than its
	// usual share.
	surgeGain, minGoal = 2, 2.5

	// The window stays at the goal for at least minSurge and surgeTrips round trips, so that others
	// that slowed down after a loss have time to take back their part.
	//
	// It also stays until surgeLosses losses should have occurred, but no longer than maxSurge,
	// because rarer losses don't hurt others much.
	minSurge, surgeTrips, surgeLosses, maxSurge = time.Second, 40, 16, 5 * time.Second

	// minLosses is how many losses show the usual share without a surge. If there are fewer within
	// maxSurge, the share is small.
	minLosses = 4

	// We rest for at least minRest and restTrips round trips before the next surge. Since a surge
	// makes others lose packets, the rest doubles, up to maxRest, with each surge that fails.
	minRest, restTrips, maxRest = time.Second / 2, 16, 32 * time.Second

	// randomLosses is how many losses a surge must meet at its goal to prove them random. If there
	// are fewer, or fewer than randomPart of those expected, the path simply has room. Of 16 random
	// losses, fewer than half occur in one surge of 100.
	randomLosses, randomPart = 6, 0.5

	// proofsNeeded is how many surges in a row must prove losses random. A single one may do so by
	// chance if others leave the path just then.
	proofsNeeded = 2

	// decidedRounds is how many rounds pass until the fates of a round's packets are known.
	decidedRounds = 3
)

// A sharing is a competition on a path that drops packets instead of queueing them. Its window
// grows and shrinks as in New Reno. Without a queue we can't see whether there are other flows, but
// there are none if the window comes back to the whole path after a loss.
//
// Since random losses would keep that window small forever, we try a surge from time to time, which
// keeps doubling the window. Losses that we or others cause then increase, but random ones don't.
type sharing struct {
	on      bool
	byFlood bool          // caused by a flood, not proved by looks or queues; ends when we see a queue
	first   float64       // the window when it began
	next    instant       // earliest time for the next surge
	rest    time.Duration // from the last surge to the next
	proofs  int           // surges in a row that proved losses random
	failed  bool          // a surge has failed since it began
	wasCut  bool          // losses have cut the window since it began
	stretch stretch       // since the last surge, or since the last step of this one

	// The surge.
	surging bool    // a surge is under way
	base    float64 // the window when it began
	before  float64 // the window before it was last raised
	goal    float64 // the window at which losses may prove random
	usual   tally   // fates before it
}

// A stretch counts the fates of the packets sent from a certain time on.
type stretch struct {
	began instant
	round int64 // round in which the fates of the first of them become known
	shown bool  // that round has ended
	from  tally // fates at its end, if shown
	fates tally // of all packets since the sharing began; of a run of losses, only the first counts
}

// begin starts counting from the packets sent from now on, because the window changes. round is the
// number of the current round.
func (s *stretch) begin(t instant, round int64) {
	s.began = t
	s.round = round + decidedRounds
	s.shown = false
}

// roundOver ends a round.
func (s *stretch) roundOver(round int64) {
	s.shown = round >= s.round
	if round <= s.round {
		s.from = s.fates
	}
}

// now returns the fates of the stretch.
func (s *stretch) now() tally {
	if !s.shown {
		return tally{}
	}
	return tally{lost: s.fates.lost - s.from.lost, acked: s.fates.acked - s.from.acked}
}

// expected returns how many losses the usual share makes of the packets of the stretch.
func (s *sharing) expected() float64 { return s.usual.share() * float64(s.stretch.now().count()) }

// exceeds reports whether losses exceed the usual share by more than three standard deviations. It
// allows for the fact that only a few losses show the usual share.
func (s *sharing) exceeds(now tally) bool {
	before := float64(s.usual.lost + 1)
	expected := before * float64(now.count()) / float64(s.usual.count())
	return float64(now.lost) > expected+3*math.Sqrt(expected+expected*expected/before)
}

// enterSharing enters Compete after looks or queues have proved that losses are our doing, so the
// path drops packets instead of queueing them.
func (c *Controller) enterSharing(t instant) {
	c.blame = blame{alone: c.blame.alone} // its evidence has been used
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
	s.stretch.begin(t, c.round.number)
}

// stepShare does congestion avoidance, with occasional surges.
func (c *Controller) stepShare(t instant, b batch, ended bool) {
	switch {
	case c.competition.sharing.byFlood && c.queue > c.delay.target():
		c.competition.sharing = sharing{} // the path has a queue after all
	case c.competition.sharing.surging:
		c.stepSurge(t)
	case c.sharesWithNobody():
		c.stopSharing(t, true)
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

// sharesWithNobody reports whether the window has come back to the whole path after a cut, so that
// nobody else needs it. If somebody did, he would have taken what the cut left.
func (c *Controller) sharesWithNobody() bool {
	k := &c.competition
	back := k.sharing.wasCut && k.window >= wholePath*k.sharing.first && ownsPath(k.rate(c.delay.smoothed), c.fastest)
	return back && !k.sharing.byFlood
}

// stopSharing goes on as before the sharing. alone is whether nobody else needed the path.
func (c *Controller) stopSharing(t instant, alone bool) {
	if alone {
		c.competition.seen = 0
		c.blame.sharedAlone(t, t-c.competition.began)
	}
	c.rates.set(c.filling, c.competition.rate(c.delay.smoothed))
	c.enter(Cruise, t)
}

// surgeDue reports whether a surge is due and we know what is usually lost without one.
func (c *Controller) surgeDue(t instant) bool {
	s := &c.competition.sharing
	usual := s.stretch.now()
	known := usual.count() >= plentyPackets && (usual.lost >= minLosses || t-s.stretch.began > maxSurge)
	return t >= s.next && known && !c.flooded() && !c.lacksData()
}

// beginSurge begins a surge. After a surge that proved losses random, the next one goes straight to
// its goal.
func (c *Controller) beginSurge(t instant) {
	s := &c.competition.sharing
	s.surging = true
	s.base = c.competition.window
	s.usual = s.stretch.now()
	s.goal = max(wholePath*s.first, minGoal*s.base)
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
	s.stretch.begin(t, c.round.number)
}

// stepSurge goes on with a surge until more is lost than usual.
func (c *Controller) stepSurge(t instant) {
	s := &c.competition.sharing
	now := s.stretch.now()
	switch {
	case c.lacksData():
		// We can't fill the window, so it proves nothing.
		c.competition.window = s.base
		c.delaySurge(t, s.rest)
	case c.flooded(), c.queue > 2*c.delay.target(), now.count() > 0 && s.exceeds(now):
		// The surge fails. Go back to the last window without such losses, and answer them.
		c.competition.window = s.before
		s.proofs = 0
		s.failed = true
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
// packets to expect surgeLosses losses.
func (c *Controller) surgeIsOver(t instant) bool {
	s := &c.competition.sharing
	held := t - s.stretch.began
	return held >= max(minSurge, surgeTrips*c.delay.base()) &&
		(s.expected() >= surgeLosses || held >= maxSurge)
}

// endSurge ends a surge that has reached its goal.
func (c *Controller) endSurge(t instant) {
	s := &c.competition.sharing
	lost := s.stretch.now().lost
	if lost < randomLosses || float64(lost) < randomPart*s.expected() {
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

	// The losses are random. Beside others, two surges may seem to show that by chance, but rarely
	// the first two.
	c.stopSharing(t, !s.failed)
}
