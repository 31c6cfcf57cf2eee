package pace

const (
	// sharingGain is by how much packets leave faster than the window in a round trip. Where there is no queue, lookGain would lose packets of
	// four fifths of the rate.
	sharingGain = 1.02
	// unused is the part of the first window at which a loss shows that nobody has taken what we left, and vacated is how many times the window of
	// the last loss shows that those have left who had.
	unused, vacated = 0.95, 1.5
	// sharingRounds is how many rounds pass until the losses that are left are judged: while we yielded, others may have filled the path.
	sharingRounds = 10
	// remaining is the part of the losses from before by which they are random after all, at windows of an eighth of the first and more. Of a smaller
	// window it is less: of random losses too, for they come in spells.
	remaining = 0.5
)

// sharing is a competition on a path that drops in place of queueing: it ends for other reasons.
type sharing struct {
	on    bool
	first float64 // the window when it began
	last  float64 // the window that met the last loss
}

// share competes, because the losses go when we yield.
func (c *Controller) share(t instant) {
	c.congestion.forget()
	c.queueing.rateBefore = c.Estimate()
	c.compete(t)
	c.competition.sharing = sharing{on: true, first: c.competition.window}
	c.halve(t)
	c.yielding.begin(t, c.round.number+sharingRounds)
}

// unshare goes on as before the test when losses are random after all, or nobody has taken what we left, and reports whether it does.
func (c *Controller) unshare(t instant, b batch) bool {
	y, part := &c.yielding, c.competition.window/c.competition.sharing.first
	if part > remaining {
		y.begin(t, c.round.number)
	}
	now := y.now()
	random := now.lost >= yieldLosses && now.share() > y.share*min(remaining, 4*part)
	if alone := b.lately && b.full && part > unused; !random && !alone {
		return false
	}
	c.rates.set(c.filling, c.queueing.rateBefore)
	c.endYield(t)
	return true
}
