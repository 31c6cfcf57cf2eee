package pace

// An undo keeps what a reaction to losses took away. If all of the lost packets were only
// late, that is restored (Linux does so by D-SACKs, and RFC 4015 by timestamps).
//
// undo knows which packets those are. A peer may ack some packets late on purpose, which
// must not make it forget others that were lost.
type undo struct {
	first       uint16  // low bits of the number of the first lost packet of the reaction
	before      instant // when the reaction was; lost packets sent before it belong to it
	open        int     // number of those not known to be spurious; 0 = there is nothing to restore
	later       int     // the same, for lost packets sent after the reaction
	estimate    float64
	state       State
	competition competition
}

// remember keeps what a reaction to the losses of the last rounds is about to take away.
// If the reaction follows another within a round trip, undo keeps the state from before
// the first. It restores that state if all losses of both were spurious.
func (c *Controller) remember(t instant, rounds int64) {
	u := &c.undo
	if u.open > 0 && t-u.before <= c.delay.smoothed {
		u.before = t
		u.open = u.open + u.later
		u.later = 0
		return
	}
	first, lost := c.round.lostWithin(rounds)
	c.undo = undo{
		first:       first,
		before:      t,
		open:        max(lost, 1),
		estimate:    c.provenRate(),
		state:       c.state,
		competition: c.competition,
	}
}

// noteLost records a lost packet.
func (u *undo) noteLost(s Sample) {
	switch {
	case u.open == 0:
	case s.sent < u.before:
		u.open++
	default:
		u.later++
	}
}

// noteSpurious records that a lost packet arrived, and reports whether it was the last
// one of the reaction.
func (u *undo) noteSpurious(s Sample) (all bool) {
	switch {
	case u.open == 0 || before(s.number, u.first):
	case s.sent < u.before:
		u.open--
		return u.open == 0
	default:
		u.later = max(u.later-1, 0)
	}
	return false
}

// Spurious reports that a packet declared lost has arrived. The owner calls it before it
// calls Acked for the packet.
func (c *Controller) Spurious(s Sample) {
	if s.sent < c.silence.lightSince {
		return
	}
	c.round.spurious(s)
	if !c.undo.noteSpurious(s) {
		return
	}
	u := &c.undo
	if u.estimate > c.Estimate() {
		c.rates.set(c.filling, u.estimate)
	}
	switch {
	case u.state == Compete:
		if c.state == Compete {
			c.competition.window = max(c.competition.window, u.competition.window)
		}
	case c.state == Compete:
		c.competition = u.competition
		c.enter(Cruise, c.now)
	case u.state == Start && (c.state == Drain || c.state == Cruise):
		c.start.gaveUp, c.start.dropped = 0, 0
		c.enter(Start, c.now)
	}
}
