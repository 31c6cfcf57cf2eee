package pace

// undo remembers what a reaction to losses took away, until it is certain that they were losses: packets that were only
// late restore it (as Linux does with D-SACKs, and RFC 4015 with timestamps).
type undo struct {
	before      instant // losses of packets that left before it are the reaction's
	open        int     // of them, not yet known to be spurious; 0 = nothing to restore
	estimate    float64
	state       State
	competition competition
}

// remember keeps what a reaction is about to take away. A reaction to the same losses keeps what was before the first.
func (c *Controller) remember(t instant) {
	if c.undo.open == 0 || t-c.undo.before > c.delay.smoothed {
		c.undo = undo{before: t, open: max(c.round.fates.lost, 1), estimate: c.Estimate(), state: c.state, competition: c.competition}
	}
}

// Spurious says that a packet which was counted as lost has arrived after all. It is told before the packet's Acked.
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
