package pace

// stepDip ends after a round trip of which every packet met a path that we left half empty. A queue that is still there is a
// competitor's, with whom we go on competing as if nothing had been.
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
