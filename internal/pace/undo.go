package pace

// An undo remembers what a reaction to packet loss cost us in case the loss turns out to be
// spurious. A packet declared lost is sometimes only late. Once every packet we reacted to has
// arrived after all, we undo the reaction. (Linux does this with D-SACKs, and RFC 4015 with
// timestamps.)
//
// Counting late arrivals isn't enough, because a peer could ack some packets late on purpose to
// cancel out the real losses of others. So undo also keeps track of which packets we reacted to.
type undo struct {
	firstLost    uint16  // low bits of the number of the first lost packet we reacted to
	reactedAt    instant // losses of packets sent before this belong to the reaction
	missing      int     // lost packets of the reaction that haven't arrived
	missingAfter int     // lost packets sent after reactedAt that haven't arrived

	// The controller just before it reacted.
	estimate    float64 // bytes per second
	state       State
	competition competition
}

// active reports whether there is a reaction to undo.
func (u *undo) active() bool { return u.missing > 0 }

// saveUndo is called when the controller is about to react to losses of the last few rounds. It
// saves everything needed to undo the reaction later.
//
// If we already reacted less than a round trip ago, the two reactions become one: they are
// undone together, when all of their losses have proved spurious, and they go back to the state
// before the first.
func (c *Controller) saveUndo(t instant, rounds int64) {
	u := &c.undo
	if u.active() && t-u.reactedAt <= c.delay.smoothed {
		// Packets lost between the two reactions have to arrive as well now.
		u.reactedAt = t
		u.missing += u.missingAfter
		u.missingAfter = 0
		return
	}
	first, lost := c.round.lostWithin(rounds)
	c.undo = undo{
		firstLost:   first,
		reactedAt:   t,
		missing:     max(lost, 1), // at least the loss that we react to
		estimate:    c.provenRate(),
		state:       c.state,
		competition: c.competition,
	}
}

// noteLost records that a packet was declared lost.
func (u *undo) noteLost(s Sample) {
	if !u.active() {
		return
	}
	if s.sent < u.reactedAt {
		u.missing++ // it was in flight when we reacted, so the reaction answered this loss too
	} else {
		u.missingAfter++
	}
}

// Spurious reports that a packet declared lost has arrived after all. The owner must call it
// before it calls Acked for the same packet.
//
// Once every lost packet we reacted to has arrived, Spurious undoes the reaction.
func (c *Controller) Spurious(s Sample) {
	if s.sent < c.silence.lightSince {
		// Losses from before the end of an outage don't count, so there's nothing to correct.
		return
	}
	c.round.spurious(s)
	if c.undo.noteSpurious(s) {
		c.undo.restore(c)
	}
}

// noteSpurious records that a lost packet arrived. It reports whether all the losses we reacted
// to have now proved spurious.
func (u *undo) noteSpurious(s Sample) (last bool) {
	if !u.active() || before(s.number, u.firstLost) {
		return false // nothing to undo, or an older loss that had no part in the reaction
	}
	if s.sent >= u.reactedAt {
		u.missingAfter = max(u.missingAfter-1, 0)
		return false
	}
	u.missing--
	return !u.active()
}

// restore gives c back what the reaction cost, unless c has found something better in the meantime.
// c may be in a different state now.
func (u *undo) restore(c *Controller) {
	if u.estimate > c.Estimate() {
		c.rates.set(c.filling, u.estimate)
	}
	switch {
	case u.state == Compete && c.state == Compete:
		c.competition.window = max(c.competition.window, u.competition.window)
	case u.state == Compete:
		// We stopped competing in the meantime, so there's no window to restore.
	case c.state == Compete:
		// We took the losses as a sign of competing traffic, but nothing was really lost.
		c.competition = u.competition
		c.enter(Cruise, c.now)
	case u.state == Start && (c.state == Drain || c.state == Cruise):
		// The losses cut the start short before it had found the path's rate. Resume it as if
		// they had never happened.
		c.start.gaveUp = 0
		c.start.dropped = 0
		c.enter(Start, c.now)
	}
}
