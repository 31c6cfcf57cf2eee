package pace

// stepDip ends after a round trip of which every packet met a path that we left half empty.
func (c *Controller) stepDip(t instant, ended bool) {
	if c.rounds >= 2 && ended {
		c.delay.touched = t
		c.enter(Cruise, t)
	}
}
