package pace

import "time"

const (
	// startGain doubles the delivered rate in each round trip, although a sample is the
	// mean over one: 4 ln 2, BBR's startup_pacing_gain. For that, startWindow lets twice
	// the path's product be in flight.
	startGain, startWindow = 2.77, 2
	// trainPackets is the number of packets of a first flight that must be decided before
	// its rate is believed: as many as a train has.
	trainPackets = 16
	// flatRounds is the number of rounds in which the rate grows by less than the factor
	// minGrowth that show a full path (BBR: full_bw_count, full_bw_thresh).
	flatRounds = 3
	minGrowth  = 1.25
	// unexplainedLoss is a share lost in a round of Start that no random loss explains.
	// The path may drop packets without a queue.
	unexplainedLoss = maxRandomLoss + 0.05
	// outpacedPart is the part of the sending rate below which the arrival rate shows
	// that a queue grows.
	outpacedPart = 0.9
	// minShare is the minimum that a newcomer takes on a path that others fill, as a part
	// of the arrival rate of its first flight.
	minShare = 0.25
	// maxGrowth limits a rate to this multiple of the bytes of the flight that showed it,
	// per round trip, because only the peer knows when those bytes arrived. The shortest
	// flight is an eighth of what the path holds. The longest, of 512 KiB, may show 1
	// Gbit/s over 50 ms.
	maxGrowth = 16
	// minHintPart is the part of a hint that is kept if nearly all of the first flight
	// was lost.
	minHintPart = 0.125
)

// A start holds the parameters and the progress of a start, and the times of the last
// starts that losses or a queue ended.
type start struct {
	// Rate to begin at, from the train or an old estimate, in bytes per second; 0 = a
	// rate was measured, or nothing is known.
	hint float64
	// The hint was measured: begin at it, not at twice it, until the first flight
	// confirms it.
	careful bool
	even    bool // the packets of the train arrived evenly
	// Time they took to arrive if they did not. That much of a queue may be jitter.
	spread time.Duration
	crowd  float64 // number of connections that seem to begin together, judged by the train

	tried  bool    // as many bytes as trial returns were in flight on this path
	flight instant // until tried is true: when sending resumed after there was nothing to send
	// Rate of the last round that grew; the next one must exceed it by the factor
	// minGrowth.
	full     float64
	flat     int  // consecutive rounds that did not
	lost     int  // bytes lost since the state was entered
	doubtful bool // most of the first flight was lost, and the fates of more of it are still unknown

	left    float64 // estimate that remained after a start that losses ended
	dropped instant // when a start last met losses without a queue; 0 = never
	// Losses of packets sent before this do not count: when the flight that tried the
	// path began, or when a start that knew a rate ended.
	answered instant
	gaveUp   instant // when a start reduced that rate; arrivals of packets sent before show no rate
}

// grew records the rate of a round, which the next rounds must exceed.
func (s *start) grew(rate float64) { s.full, s.flat = rate, 0 }

// judged returns the fates by which a start is judged. others is the number of bytes that
// are in flight or have arrived.
//
// A run of losses counts as one, unless most of what was sent was lost. Of many
// controllers the last ones lose everything that they send in one run.
func (s *start) judged(fates tally, others int) tally {
	if s.lost > others {
		return fates
	}
	return fates.events()
}

// try records that a packet is sent, with which inFlight bytes are in flight. It reports
// whether that is enough for the path to show what it carries. first is true if there was
// nothing to send before the packet.
//
// Before that neither losses nor rounds without growth end a start, because a few packets
// of play show nothing. When three of three were lost by chance, the transfer that began
// seconds later started at the rate of play.
//
// Losses of packets from before the flight that is enough no longer count.
func (s *start) try(t instant, first bool, inFlight, enough int) bool {
	if first {
		s.flight = t
	}
	s.tried = inFlight >= enough
	if s.tried {
		s.answered = s.flight
	}
	return s.tried
}

// trial returns the number of bytes in flight that show what a path carries. It is
// trainPackets packets, or minWindow packets while bulk waits, because a small transfer
// has no more than a few. It is at most half of a window. When trainPackets were
// required, the starts of consecutive small transfers never ended.
func trial(window, packet int, bulk bool) int {
	packets := trainPackets
	if bulk {
		packets = minWindow
	}
	return min(window/2, packets*packet)
}

// stepStart lets the rate grow until the path drops packets, shows a queue, or carries no
// more. Rounds in which there was little to send do not count.
func (c *Controller) stepStart(t instant, b batch, ended bool) {
	flight, known := c.firstFlight()
	fates := c.start.judged(c.round.fates, c.inFlight+int(c.delivery.total-c.totalBefore))
	switch {
	case known:
		c.confirm(t, flight)
	case b.lost > 0 && c.start.tried && fates.share() > unexplainedLoss && fates.above(unexplainedLoss):
		c.endByLoss(t)
	case c.queue > c.delay.startFull()+max(c.start.spread-c.delay.jitter(), 0) && c.outpaced() &&
		!c.start.careful && !b.newest.limited:
		if c.rates.value() == 0 {
			c.believeLess()
		} else {
			c.start.answered = t // this also answers the losses that the queue still causes
		}
		c.dropHint()
		c.trim()
		c.enter(Drain, t)
	case !ended || c.rounds < 2 || !c.start.tried || c.start.careful || b.newest.limited:
	case c.dropHint() > c.start.full*minGrowth:
		c.start.grew(c.Estimate())
	default:
		c.start.flat++
		if c.start.flat >= flatRounds {
			c.enter(Drain, t)
		}
	}
}

// firstFlight returns the slope of a careful first flight, once enough of it was acked or
// lost to begin at its rate. Only packets since the last pause for lack of data count.
// Two of them show nothing.
//
// If nearly all of the window has arrived, a short flight is judged as well. The next
// flight is sent a round trip later, and that pause would look like a slow path.
//
// Nor does firstFlight wait until the flight's losses are known, because those are found
// only when the next flight arrives.
func (c *Controller) firstFlight() (s slope, ok bool) {
	heard := int(c.delivery.total-c.totalBefore) + c.start.lost
	if !c.start.careful || heard < trainPackets*c.cfg.Packet {
		return slope{}, false
	}
	minBytes := trainPackets / 2 * c.cfg.Packet
	s, arrived, ok := c.delivery.flight(minBytes, c.delay.base()/2)
	long := s.took >= minStanding && s.bytes >= minBytes
	return s, ok && (long || arrived+c.start.lost >= c.Window()*9/10)
}

// confirm begins at the rate of the first flight, and looks for more if the path seems to
// have room.
func (c *Controller) confirm(t instant, s slope) {
	filled := s.arrival < outpacedPart*s.sent && s.grown > 2*burstTime
	rate := min(s.shown(), c.maxAfter(c.passed(c.Window())))
	if c.starters > 1 {
		rate = min(rate, c.partOf(c.start.hint))
	}
	if filled {
		// Others fill the path, and the flight took a share of the queue from them, so
		// its rate is too high.
		//
		// The hint is the path's rate. The queue grew by what they and we sent beyond
		// that, so what they leave is the rest. But the hint may be too high.
		rate = min(rate, max(s.sent-c.start.hint*(s.sent/s.arrival-1), minShare*s.arrival))
	}
	c.start.hint = 0
	c.queueing.rateBefore = min(c.queueing.rateBefore, s.arrival)
	c.rates.set(c.filling, rate)
	switch {
	case filled:
		c.enter(Drain, t)
	case c.starters > 1:
		// The others may not need their parts of the hint. Double ours each round trip
		// until the path is full.
		c.start.careful = false
		c.start.gaveUp = t
		c.goOn(t)
	default:
		c.openLook(t, true)
	}
}

// maxAfter returns the maximum rate that is believed after the given number of bytes
// arrived in a round trip.
func (c *Controller) maxAfter(bytes int) float64 { return maxGrowth * c.overTrip(bytes) }

// overTrip returns the rate of the given number of bytes in the current round trip, by
// the local clock. It is no less than the rate of the minimum window.
func (c *Controller) overTrip(bytes int) float64 {
	return max(float64(bytes), c.minWindowBytes()) / max(c.delay.smoothed, c.delay.base()).Seconds()
}

// outpaced reports whether packets arrive more slowly than they were sent. Then a queue
// of ours grows; jitter does not cause that. A few packets of play show nothing, because
// the delays of two packets make up any rate.
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

// minUnknown is the number of packets that may always be sent in the first round trip of
// an unknown path, however many controllers start: the initial window of RFC 9002,
// section 7.2.
const minUnknown = 10

// starters is the number of controllers that start together; 0 counts as one. See
// [Controller.Starters].
type starters int

// part returns the part of each starter.
func (n starters) part(all float64) float64 { return all / float64(max(n, 1)) }

// unknown returns the number of packets that each starter may send in the first round
// trip of an unknown path.
func (n starters) unknown() float64 { return max(n.part(unknownWindow), minUnknown) }
