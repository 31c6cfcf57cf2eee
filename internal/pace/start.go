package pace

import "time"

const (
	// startGain doubles the delivered rate in each round trip, although a
	// sample is the mean over one: 4 ln 2, BBR's startup_pacing_gain.
	// startWindow lets twice the path's product be in flight for that.
	startGain, startWindow = 2.77, 2
	// trainPackets is how many packets of a first flight must be decided before
	// its rate is believed: as many as a train has.
	trainPackets = 16
	// flatRounds is how many rounds in which the rate grows by less than the factor
	// growth show that the path is full (BBR: full_bw_count, full_bw_thresh).
	flatRounds = 3
	growth     = 1.25
	// blind is the share lost in a round of Start that no random loss explains:
	// the path may drop packets without a queue.
	blind = maxRandomLoss + 0.05
	// outpacedPart is the part of the sending rate below which the rate of
	// arrival shows that a queue grows.
	outpacedPart = 0.9
	// leastShare is the part of the rate at which its first flight arrived that
	// a newcomer takes at least, on a path that others fill.
	leastShare = 0.25
	// mostGrowth limits a rate to this many times the bytes of the flight that showed it,
	// per round trip, because only the peer knows when those arrived. The least flight is an
	// eighth of what the path holds; the longest, of 512 KiB, may show 1 Gbit/s over 50 ms.
	mostGrowth = 16
	// leastHint is the part of a hint that is kept if nearly all of the first flight was lost.
	leastHint = 0.125
)

// A start holds what a start begins with, its progress, and the times of the
// last starts that losses or a queue have ended.
type start struct {
	// Rate to begin at, from the train or an old estimate, in bytes a second; 0
	// = a rate was measured, or nothing is known.
	hint    float64
	careful bool          // the hint was measured: begin at it, not at twice it, until the first flight confirms it
	even    bool          // the packets of the train arrived evenly
	spread  time.Duration // how long they took to arrive if they did not: so much of a queue may be jitter
	crowd   float64       // how many connections seem to begin together, by the train

	tried    bool    // as many bytes as trial returns have been in flight on this path
	flight   instant // until tried is true: when the newest packets began to be sent, after there was nothing to send
	full     float64 // rate of the last round that grew; the next one must exceed it by the factor growth
	flat     int     // rounds in a row that did not
	lost     int     // bytes lost since the state was entered
	doubtful bool    // most of the first flight was lost, and the fates of more of it are still unknown

	left    float64 // the estimate that remained after a start that losses have ended
	dropped instant // when a start last met losses without a queue; 0 = never
	// Losses of packets sent before do not count: when the flight that tried
	// the path began, or when a start that knew a rate ended.
	answered instant
	gaveUp   instant // when a start reduced that rate; arrivals of packets sent before show no rate
}

// grew records the rate of a round from which the next ones must grow.
func (s *start) grew(rate float64) { s.full, s.flat = rate, 0 }

// judged returns the fates by which a start is judged; others is the number of bytes that
// are in flight or have arrived. A run of losses counts as one, unless most of what was
// sent was lost: of many controllers the last ones lose all that they send in one run.
func (s *start) judged(fates tally, others int) tally {
	if s.lost > others {
		return fates
	}
	return fates.events()
}

// try records that a packet is sent, with which inFlight bytes are in flight, and
// reports whether that is enough for the path to show what it carries. Before that
// neither losses nor rounds without growth end a start, because a few packets of play
// show nothing: when three of three were lost by chance, the transfer that began seconds
// later started at the rate of play. first is true if there was nothing to send before
// the packet. Losses of packets from before the flight that is enough no longer count.
func (s *start) try(t instant, first bool, inFlight, enough int) bool {
	if first {
		s.flight = t
	}
	if s.tried = inFlight >= enough; s.tried {
		s.answered = s.flight
	}
	return s.tried
}

// trial returns how many bytes in flight show what a path carries: trainPackets
// packets, or minWindow packets while bulk waits, because a small transfer has
// no more than a few; but at most half of a window. When trainPackets were
// required, the starts of small transfers one after another never ended.
func trial(window, packet int, bulk bool) int {
	packets := trainPackets
	if bulk {
		packets = minWindow
	}
	return min(window/2, packets*packet)
}

// stepStart lets the rate grow until the path drops packets, shows a queue, or
// carries no more. Rounds in which there was little to send do not count.
func (c *Controller) stepStart(t instant, b batch, ended bool) {
	flight, known := c.firstFlight()
	fates := c.start.judged(c.round.fates, c.inFlight+int(c.delivery.total-c.before))
	switch {
	case known:
		c.confirm(t, flight)
	case b.lost > 0 && c.start.tried && fates.share() > blind && fates.above(blind):
		c.endByLoss(t)
	case c.queue > c.delay.startFull()+max(c.start.spread-c.delay.jitter(), 0) && c.outpaced() && !c.start.careful && !b.newest.limited:
		if c.rates.value() == 0 {
			c.believeLess()
		} else {
			c.start.answered = t // this also answers the losses that the queue still causes
		}
		c.dropHint()
		c.trim()
		c.enter(Drain, t)
	case !ended || c.rounds < 2 || !c.start.tried || c.start.careful || b.newest.limited:
	case c.dropHint() > c.start.full*growth:
		c.start.grew(c.Estimate())
	default:
		if c.start.flat++; c.start.flat >= flatRounds {
			c.enter(Drain, t)
		}
	}
}

// firstFlight returns the slope of a careful first flight, once enough of it was acked
// or lost to begin at its rate. Only packets since the last pause for want of data
// count; two of them show nothing. If nearly all of the window has arrived, the flight
// is judged even if it was short: the next flight is sent a round trip later, and that
// pause would look like a slow path. Nor does firstFlight wait until the flight's
// losses are known, because those are found only when the next flight arrives.
func (c *Controller) firstFlight() (s slope, ok bool) {
	heard := int(c.delivery.total-c.before) + c.start.lost
	if !c.start.careful || heard < trainPackets*c.cfg.Packet {
		return slope{}, false
	}
	least := trainPackets / 2 * c.cfg.Packet
	s, arrived, ok := c.delivery.flight(least, c.delay.base()/2)
	long := s.took >= minStanding && s.bytes >= least
	return s, ok && (long || arrived+c.start.lost >= c.Window()*9/10)
}

// confirm begins at the rate of the first flight, and looks for more if the
// path seems to have room.
func (c *Controller) confirm(t instant, s slope) {
	filled := s.arrival < outpacedPart*s.sent && s.grown > 2*burstTime
	rate := min(s.shown(), c.mostAfter(c.passed(c.Window())))
	if c.starters > 1 {
		rate = min(rate, c.partOf(c.start.hint))
	}
	if filled {
		// Others fill the path, and the flight took a share of the queue from them: its
		// rate is too high. The hint is the path's rate. The queue grew by what they and we
		// sent beyond that, so what they leave is the rest; but the hint may be too high.
		rate = min(rate, max(s.sent-c.start.hint*(s.sent/s.arrival-1), leastShare*s.arrival))
	}
	c.start.hint, c.queueing.rateBefore = 0, min(c.queueing.rateBefore, s.arrival)
	c.rates.set(c.filling, rate)
	switch {
	case filled:
		c.enter(Drain, t)
	case c.starters > 1: // the others may not need their parts of the hint: double ours each round trip until the path is full
		c.start.careful, c.start.gaveUp = false, t
		c.goOn(t)
	default:
		c.open(t, true)
	}
}

// mostAfter returns the greatest rate that is believed after so many bytes have
// arrived in a round trip.
func (c *Controller) mostAfter(bytes int) float64 { return mostGrowth * c.overTrip(bytes) }

// overTrip returns the rate of so many bytes in the present round trip, by our
// own clock; it is no less than that of the least window.
func (c *Controller) overTrip(bytes int) float64 {
	return max(float64(bytes), c.leastWindow()) / max(c.delay.smoothed, c.delay.base()).Seconds()
}

// outpaced reports whether packets arrive more slowly than they were sent: then
// a queue of ours grows, and jitter does not cause that. A few packets of play
// show nothing, because the delays of two packets make any rate.
func (c *Controller) outpaced() bool {
	s, ok := c.delivery.rateOf(int64(minWindow*c.cfg.Packet), c.delay.base()/2)
	return ok && s.arrival < outpacedPart*s.sent
}

// dropHint discards the hint if a rate was measured, and returns the estimate.
func (c *Controller) dropHint() float64 {
	if c.rates.value() > 0 {
		c.start.hint = 0
	}
	return c.Estimate()
}

// leastUnknown is how many packets may always be sent in the first round trip of an unknown
// path, however many controllers start: the initial window of RFC 9002, section 7.2.
const leastUnknown = 10

// starters is how many controllers start together, see [Controller.Starters]; 0 counts as one.
type starters int

// part returns the part of each starter.
func (n starters) part(all float64) float64 { return all / float64(max(n, 1)) }

// unknown returns how many packets each starter may send in the first round
// trip of an unknown path.
func (n starters) unknown() float64 { return max(n.part(unknownWindow), leastUnknown) }
