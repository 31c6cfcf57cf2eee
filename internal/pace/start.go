package pace

import "time"

const (
	// startGain doubles the delivered rate every round trip, given that each sample of the rate
	// is a mean over one: 4 ln 2, BBR's startup_pacing_gain. It needs startWindow, which lets
	// twice the path's product be in flight.
	startGain, startWindow = 2.77, 2

	// trainPackets is how many packets of a first flight must be acked or lost before we
	// believe its rate. A train has as many.
	trainPackets = 16

	// A path is full once the rate has grown by less than the factor minGrowth in flatRounds
	// rounds (BBR's full_bw_thresh and full_bw_count).
	flatRounds = 3
	minGrowth  = 1.25

	// unexplainedLoss is the share of losses in a round of Start above which the path must be
	// full, even if there is no queue to be seen.
	unexplainedLoss = maxRandomLoss + 0.05

	// outpacedPart is how far the arrival rate must fall below the sending rate to show that a
	// queue is growing.
	outpacedPart = 0.9

	// minShare is how much of its first flight's arrival rate a newcomer takes at least, on a
	// path that others fill.
	minShare = 0.25

	// maxGrowth limits the rate that we believe a flight has shown, as a multiple of the
	// flight's bytes per round trip. We have only the peer's word for when those bytes arrived.
	// The shortest flight is an eighth of what the path holds, and the longest, of 512 KiB, may
	// show 1 Gbit/s over 50 ms.
	maxGrowth = 16

	// minHintPart is how much of a hint we keep if nearly all of the first flight was lost.
	minHintPart = 0.125
)

// A start is the counterpart of TCP's slow start. It finds the path's rate, beginning from a hint
// if there is one. The last few fields outlive it: they tell how earlier starts ended.
type start struct {
	// What we begin with.
	hint    float64       // rate from the train or an old estimate; 0 = none, or we've measured since
	careful bool          // don't double the hint before the first flight has confirmed it
	crowd   float64       // how many connections seem to begin together, judged by the train
	even    bool          // the packets of the train arrived evenly
	spread  time.Duration // if not, how long they took; that much of a queue may be jitter

	// How far we've come.
	opening  opening // of the first flight, if it's careful
	tried    bool    // enough was in flight on this path to show what it carries; see try
	flight   instant // until tried: when sending last resumed after we had nothing to send
	full     float64 // rate that the next round must exceed by the factor minGrowth
	flat     int     // consecutive rounds that didn't
	lost     int     // bytes lost since the state was entered
	doubtful bool    // most of the first flight was lost, and more of it may be

	// How earlier starts ended.
	left     float64 // our estimate after losses ended one
	dropped  instant // when one last met losses without a queue; 0 = never
	answered instant // losses of packets sent before this have been answered, and don't count
	gaveUp   instant // when one cut its rate; arrivals of packets sent before show no rate
}

// grew records the rate of a round, which the following rounds must exceed.
func (s *start) grew(rate float64) {
	s.full = rate
	s.flat = 0
}

// endRound ends a round with this rate. It reports whether the rate has stopped growing.
func (s *start) endRound(rate float64) (full bool) {
	if rate > s.full*minGrowth {
		s.grew(rate)
		return false
	}
	s.flat++
	return s.flat >= flatRounds
}

// dropHint discards the hint if we have measured a rate.
func (s *start) dropHint(measured float64) {
	if measured > 0 {
		s.hint = 0
	}
}

// judged returns the fates that decide whether losses end a start. others is how many bytes are
// in flight or have arrived.
func (s *start) judged(fates tally, others int) tally {
	if s.lost > others {
		// Most of what we sent is lost, so count every packet. When many controllers start, the
		// last ones lose everything in a single run.
		return fates
	}
	return fates.events() // a run of losses counts as one
}

// try is called for each packet that is sent, until there are enough bytes in flight for the path
// to show what it carries. first is true if there was nothing to send before the packet.
//
// Before that, neither losses nor rounds without growth end a start, because a few packets of
// play prove nothing. Three of three were once lost by chance, and a transfer that began seconds
// later then started at the rate of play.
func (s *start) try(t instant, first bool, inFlight, enough int) bool {
	if first {
		s.flight = t
	}
	s.tried = inFlight >= enough
	if s.tried {
		s.answered = s.flight // losses from before this flight no longer count
	}
	return s.tried
}

// trial returns how many bytes must be in flight for the path to show what it carries, which is
// at most half of a window.
func trial(window, packet int, bulk bool) int {
	packets := trainPackets
	if bulk {
		// A small transfer has only a few packets. If we wanted more, the starts of small
		// transfers in succession would never end.
		packets = minWindow
	}
	return min(window/2, packets*packet)
}

// stepStart lets the rate grow until the path drops packets, shows a queue, or carries no more.
// Rounds in which there was little to send don't count.
func (c *Controller) stepStart(t instant, b batch, ended bool) {
	flight, known := c.firstFlight()
	fates := c.start.judged(c.round.fates, c.inFlight+int(c.delivery.total-c.totalBefore))
	full := c.delay.startFull() + max(c.start.spread-c.delay.jitter(), 0)
	switch {
	case c.judgeOpening(t):
		// It has found a higher rate.
	case known:
		c.confirm(t, flight)
	case b.lost > 0 && c.start.tried && fates.share() > unexplainedLoss && fates.above(unexplainedLoss):
		c.endByLoss(t)
	case c.queue > full && c.outpaced() && !c.start.careful && !b.newest.limited:
		if c.rates.value() == 0 {
			c.believeLess()
		} else {
			c.start.answered = t // the queue may still cause losses, which this answers too
		}
		c.start.dropHint(c.rates.value())
		c.trim()
		c.enter(Drain, t)
	case !ended || c.rounds < 2 || !c.start.tried || c.start.careful || b.newest.limited:
		// This round can't show whether the rate still grows.
	default:
		c.start.dropHint(c.rates.value())
		if c.start.endRound(c.Estimate()) {
			c.enter(Drain, t)
		}
	}
}

// judgeOpening adopts the rate at which the opening of a first flight arrived if that is far more
// than the hint, and reports whether it did. If the path could have carried even more, we go on
// growing.
func (c *Controller) judgeOpening(t instant) (found bool) {
	o := &c.start.opening
	if !c.start.careful || !o.over() || c.starters > 1 {
		return false
	}
	s, points := c.delivery.opening(o.last)
	shows := points >= minOpeningPoints && s.took >= minSpan && s.bytes >= o.bytes/2
	if !shows || s.shown() < openingFound*c.start.hint {
		return false
	}
	c.rates.set(c.filling, min(s.shown(), openingGain*c.start.hint))
	c.start.hint = 0
	c.start.careful = false
	if s.arrival >= outpacedPart*s.sent {
		c.goOn(t)
		return true
	}
	c.openLook(t)
	c.look.swift = true
	return true
}

// firstFlight returns the slope of a careful first flight once it has shown the path's rate. Only
// packets sent since we last had nothing to send count.
func (c *Controller) firstFlight() (s slope, ok bool) {
	heard := int(c.delivery.total-c.totalBefore) + c.start.lost
	if !c.start.careful || heard < trainPackets*c.cfg.Packet {
		return slope{}, false
	}
	minBytes := trainPackets / 2 * c.cfg.Packet
	s, arrived, ok := c.delivery.flight(minBytes, c.delay.base()/2)
	long := s.took >= minStanding && s.bytes >= minBytes

	// Once nearly all of the window has arrived, a short flight will have to do. The next one
	// leaves a round trip later, and that pause would look like a slow path. We can't wait for
	// the flight's losses either, because it takes the next flight to detect them.
	whole := arrived+c.start.lost >= c.Window()*9/10
	return s, ok && (long || whole)
}

// confirm adopts the rate that the first flight showed, and looks for more if the path seems to
// have room.
func (c *Controller) confirm(t instant, s slope) {
	filled := s.arrival < outpacedPart*s.sent && s.grown > 2*burstTime
	rate := min(s.shown(), c.maxAfter(c.passed(c.Window())))
	if c.starters > 1 {
		rate = min(rate, c.partOf(c.start.hint))
	}
	if filled {
		// Others fill the path. The rate is too high, since the flight took a share of the
		// queue from them.
		//
		// The hint is the rate of the path, and the queue grew by what they and we sent beyond
		// that. From this we get what they leave. It may be too little if the hint is too high.
		rate = min(rate, max(s.sent-c.start.hint*(s.sent/s.arrival-1), minShare*s.arrival))
	}
	c.start.hint = 0
	c.queueing.rateBefore = min(c.queueing.rateBefore, s.arrival)
	c.rates.set(c.filling, rate)
	switch {
	case filled:
		c.enter(Drain, t)
	case c.starters > 1:
		// The others may not need their parts of the hint. Double ours every round trip until
		// the path is full.
		c.start.careful = false
		c.start.gaveUp = t
		c.goOn(t)
	default:
		c.openLook(t)
		c.look.swift = true
	}
}

// maxAfter returns the highest rate that we believe after bytes have arrived in a round trip.
func (c *Controller) maxAfter(bytes int) float64 { return maxGrowth * c.overTrip(bytes) }

// overTrip returns the rate at which bytes arrive in a round trip of the current length, by the
// local clock. It is no less than the rate of the minimum window.
func (c *Controller) overTrip(bytes int) float64 {
	return max(float64(bytes), c.minWindowBytes()) / max(c.delay.smoothed, c.delay.base()).Seconds()
}

// outpaced reports whether packets arrive more slowly than we send them, so that our queue grows.
// Jitter doesn't have this effect over more than a few packets.
func (c *Controller) outpaced() bool {
	s, ok := c.delivery.rateOf(int64(minWindow*c.cfg.Packet), c.delay.base()/2)
	return ok && s.arrival < outpacedPart*s.sent
}

// minUnknown is how many packets may be sent in the first round trip of an unknown path however
// many controllers start. It's the initial window of RFC 9002, section 7.2.
const minUnknown = 10

// starters is how many controllers start together; 0 counts as one. See [Controller.Starters].
type starters int

// part returns each starter's part.
func (n starters) part(all float64) float64 { return all / float64(max(n, 1)) }

// unknown returns how many packets each starter may send in the first round trip of an unknown
// path.
func (n starters) unknown() float64 { return max(n.part(unknownWindow), minUnknown) }
