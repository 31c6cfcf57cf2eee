package pace

const (
	// startGain doubles what is delivered each round trip, though samples are a mean over one: 4 ln 2 (BBR's
	// startup_pacing_gain). startWindow lets a round trip of it be in flight.
	startGain, startWindow = 2.77, 2
	// trainPackets is how many packets at the rate to begin with must arrive before it is believed: another train.
	trainPackets = 16
	// flatRounds without growth, by a quarter each, mean that the path is full (BBR: full_bw_count, full_bw_thresh).
	flatRounds = 3
	growth     = 1.25
	// blind is the loss in a round of Start that no random loss explains: the path may drop what it does not queue.
	blind = maxRandomLoss + 0.05
	// outpacedPart is which part of what is sent arrives when it makes a queue grow that matters.
	outpacedPart = 0.9
	// leastShare is which part of what arrived of its first flight a newcomer takes at least on a path that others fill.
	leastShare = 0.25
	// mostGrowth bounds a rate by the flight that showed it: the times at which that arrived are the peer's word alone. The least
	// flight is an eighth of what the path holds, and the longest, of 512 KiB, may show 1 Gbit/s over 50 ms.
	mostGrowth = 16
	// leastHint is the part of a hint that stays when nearly all of its first flight was lost.
	leastHint = 0.125
)

// stepStart grows until the path drops, shows a queue, or stops growing. Rounds in which there was little to send show nothing.
func (c *Controller) stepStart(t instant, b batch, ended bool) {
	flight, told := c.firstFlight()
	switch {
	case told:
		c.confirm(t, flight)
	case b.lost > 0 && c.round.fates.share() > blind && c.round.fates.above(blind):
		c.endByLoss(t)
	case c.queue > c.delay.startFull() && c.outpaced() && !c.careful:
		if c.rates.value() == 0 {
			c.believeLess()
		} else {
			c.startEnded = t // what the queue drops as yet tells nothing else
		}
		c.measured()
		c.trim()
		c.enter(Drain, t)
	case !ended || c.rounds < 2 || c.careful || b.newest.limited:
	case c.measured() > c.full*growth:
		c.full, c.flat = c.Estimate(), 0
	default:
		if c.flat++; c.flat >= flatRounds {
			c.enter(Drain, t)
		}
	}
}

// firstFlight returns what came of a careful first flight, when that is enough to take it for the rate to begin with. What came since there
// was last nothing to send may be two packets, from which nothing is learnt. A flight that is here is judged however short it was: the next
// one leaves a round trip later, and that pause would look like a slow path. Nor does its end wait for what is lost of it, which is told when
// the next one arrives.
func (c *Controller) firstFlight() (s slope, ok bool) {
	heard := int(c.delivery.total-c.before) + c.flightLost
	if !c.careful || heard < trainPackets*c.cfg.Packet {
		return slope{}, false
	}
	least := trainPackets / 2 * c.cfg.Packet
	s, arrived, ok := c.delivery.flight(least, c.delay.base()/2)
	long := s.took >= minStanding && s.bytes >= least
	return s, ok && (long || arrived+c.flightLost >= c.Window()*9/10)
}

// confirm takes the rate of the first flight for the one to begin with, and looks for more where there seems to be room.
// Where less arrived than was sent, others fill the path, and what arrived is our share of a queue that takes all: too much.
// While the flight was sent, the queue grew by what others and we sent beyond the path's rate, which the hint tells; what
// others left is the rest. A leastShare of what arrived is begun with anyway, for the hint may have been too high. Where others started
// as well the flight was our part of the hint, which they may not need: each doubles it by the round trip until the path is full.
func (c *Controller) confirm(t instant, s slope) {
	full := s.arrival < outpacedPart*s.sent && s.grown > 2*burstTime
	rate := min(s.shown(), c.mostAfter(c.Window()))
	if c.starters > 1 {
		rate = min(rate, c.starters.part(c.hint))
	}
	if full {
		rate = min(rate, max(s.sent-c.hint*(s.sent/s.arrival-1), leastShare*s.arrival))
	}
	c.hint, c.rateBeforeQueue = 0, min(c.rateBeforeQueue, s.arrival)
	c.rates.set(c.filling, rate)
	switch {
	case full:
		c.enter(Drain, t)
	case c.starters > 1:
		c.careful, c.startGaveUp = false, t
		c.goOn(t)
	default:
		c.open(t, true)
	}
}

// mostAfter is the greatest rate that is believed after a round trip of so many bytes.
func (c *Controller) mostAfter(bytes int) float64 { return mostGrowth * c.overTrip(bytes) }

// overTrip is the rate of so many bytes in a round trip as it is now, by our own clock; never less than that of the least window.
func (c *Controller) overTrip(bytes int) float64 {
	return max(float64(bytes), c.leastWindow()) / max(c.delay.smoothed, c.delay.base()).Seconds()
}

// outpaced tells whether less arrives than was sent: that is what makes a queue of ours grow, and jitter does not.
func (c *Controller) outpaced() bool {
	s, ok := c.delivery.rate(c.delay.base() / 2)
	return ok && s.arrival < outpacedPart*s.sent
}

// measured replaces the hint by what was measured, and returns that.
func (c *Controller) measured() float64 {
	if c.rates.value() > 0 {
		c.hint = 0
	}
	return c.Estimate()
}
