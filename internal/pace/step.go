package pace

// step moves the state machine after a feedback.
func (c *Controller) step(t instant, b batch, ended bool) {
	if ended {
		c.rounds++
		c.strain()
	}
	if c.judge(t) {
		c.enter(Start, t)
		c.full, c.flat = c.Estimate(), 0
		return
	}
	switch c.state {
	case Start:
		c.stepStart(t, b, ended)
	case Drain:
		c.stepDrain(t, b, ended)
	case Cruise:
		c.stepCruise(t, b, ended)
	case Up:
		c.stepUp(t, b)
	case Dip:
		c.stepDip(t, ended)
	case Compete:
		c.stepCompete(t, b, ended)
	}
}

// enter changes the state.
func (c *Controller) enter(s State, t instant) {
	if s == Cruise {
		c.pause = c.distance(t)
	}
	c.careful, c.doubts = c.careful && s == Start, c.doubts && s == Dip
	c.state, c.since, c.before, c.rounds, c.payingBack = s, t, c.delivery.total, 0, false
}

// strain counts the rounds in which a queue stayed, and remembers what we had before them; and those in which there was
// next to none.
func (c *Controller) strain() {
	if c.idle++; c.crest > max(c.delay.aim()/2, c.delay.jitter()/4) {
		c.idle, c.vain = 0, false
	}
	c.countVacant()
	if c.standing <= c.delay.target()/2 {
		c.stays = 0
		return
	}
	if c.stays == 0 {
		c.rateBefore = c.Estimate()
	}
	c.stays++
}

// countVacant counts the rounds in a row in which we compete and yet no packet met more of a queue than jitter makes, of
// which the greatest in a round is half as much again as the least of these.
func (c *Controller) countVacant() {
	jitter := c.delay.spread()*3/2 - c.delay.jitter()
	if c.state != Compete || c.crest > jitter+max(c.delay.depth/4, shallow/2) {
		c.emptyRounds, c.emptyTally = 0, tally{}
		return
	}
	c.emptyRounds++
	c.emptyTally.add(c.roundLeft)
}
