package pace

// undo keeps what a reaction to losses took away. When all of those packets were only late, it is given back (as Linux does by D-SACKs, and
// RFC 4015 by timestamps).
type undo struct {
	before      instant // when the reaction was: lost packets that left before belong to it
	open        int     // how many of those are not known to be spurious; 0 = there is nothing to give back
	estimate    float64
	state       State
	competition competition
}

// remember keeps what a reaction is about to take away. When it follows another one to the same losses, undo keeps the state before the
// first.
func (c *Controller) remember(t instant) {
	if c.undo.open == 0 || t-c.undo.before > c.delay.smoothed {
		c.undo = undo{before: t, open: max(c.round.fates.lost, 1), estimate: c.Estimate(), state: c.state, competition: c.competition}
	}
}

// Spurious says that a packet which counted as lost has arrived. The owner calls it before the packet's Acked.
func (c *Controller) Spurious(s Sample) {
	c.round.fates.lost = max(c.round.fates.lost-1, 0)
	sent := c.round.sentIn(s.round)
	sent.lost = max(sent.lost-1, 0)
	if c.undo.open == 0 || s.sent >= c.undo.before {
		return
	}
	if c.undo.open--; c.undo.open > 0 {
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
		c.startGaveUp, c.startDropped = 0, 0
		c.enter(Start, c.now)
	}
}
