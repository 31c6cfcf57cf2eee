package pace

// stepDip ends the dip after a round trip in which every packet met a path that was left half empty. When there is still a queue, it is a
// competitor's, and a competition that the dip has interrupted goes on.
func (c *Controller) stepDip(t instant, ended bool) {
	switch {
	case c.rounds < 2 || !ended:
	case c.competition.interrupted && c.round.leastQueue >= c.delay.target()/2:
		c.enter(Compete, t)
	default:
		c.delay.nearLeast = t
		c.enter(Cruise, t)
	}
}
