package pace

// A State is the state of a Controller. Start ends in Drain, Drain in Cruise, and from
// Cruise the controller looks for more now and then (Up, then Drain). It competes while
// others fill the queue. From any state, silence leads to Dark and then to Stopped.
type State uint8

const (
	Start   State = iota // searches for the rate of an unknown path
	Drain                // empties the queue
	Cruise               // paces at the estimate
	Up                   // probes for more rate: a look
	Dip                  // leaves the path half empty for a round trip, to measure the minimum delay
	Compete              // shares a queue that others fill
	Yield                // leaves part of the path to others, to see whether the losses stop
	Dark                 // no ack arrives: sends one packet per PTO
	Stopped              // no ack has arrived for 10 s: sends nothing
)

func (s State) String() string {
	return [...]string{"start", "drain", "cruise", "up", "dip", "compete", "yield", "dark", "stopped"}[s]
}

// step advances the state machine after feedback. ended is true if that has ended a round.
func (c *Controller) step(t instant, b batch, ended bool) {
	if ended {
		c.rounds++
		c.countRounds()
	}
	if c.judgeLook(t) {
		c.goOn(t)
		return
	}
	if c.wantsDip(t) {
		c.dipTogether(t)
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
	case Yield:
		c.stepYield(t)
	case Compete:
		c.stepCompete(t, b, ended)
	}
}

// goOn continues to probe after a look has found more rate, or after a first flight that
// was sent at only a part of the hint. It normally enters Start again. On a path with a
// short queue, a start would lose a third of its packets, so goOn looks again at once
// instead.
func (c *Controller) goOn(t instant) {
	if c.delay.short() {
		c.enter(Cruise, t)
		c.looks.pause = 0
		return
	}
	c.enter(Start, t)
	c.start.grew(c.Estimate())
}

// enter switches to a state and resets what belongs to a single visit to a state.
//
// In Dark, one packet is sent per PTO, whatever its size. The pacer charges for these
// packets, so its next sending time may be seconds away. After Dark and Stopped that debt is
// cancelled.
func (c *Controller) enter(s State, t instant) {
	if c.state == Dark || c.state == Stopped {
		c.pacer.next = min(c.pacer.next, t)
	}
	if s == Cruise {
		c.looks.pause = c.looks.distance(t)
	}
	c.start.lost = 0
	if c.state == Start {
		c.flood.begin(&c.round)
	}
	if s != Start {
		c.starters = 0
	}
	c.start.careful = c.start.careful && s == Start
	c.competition.interrupted = c.competition.interrupted && s == Dip
	if s != Compete && s != Dark && s != Stopped {
		c.competition.sharing = sharing{}
	}
	c.dips.common = false
	if s == Drain {
		c.queueing.drained = c.round.maxQueue
	}
	c.yielding.stateChanged(c.state, s, t, c.round.number)
	c.state = s
	c.since = t
	c.totalBefore = c.delivery.total
	c.rounds = 0
	c.looks.payingBack = false
}

// countRounds updates, at the end of a round, the counts of consecutive rounds with a
// standing queue, without a queue, and with a queue that no drain has moved.
func (c *Controller) countRounds() {
	part := c.Estimate() / max(c.fastest, 1)
	c.queueing.roundOver(&c.round, &c.delay, c.Estimate(), c.congestion.random(), part)
	c.looks.inVain = c.looks.inVain && c.queueing.quietRounds > 0
	c.countEmptyRounds()
	counts := (c.state == Drain || c.state == Compete) && c.round.minQueue > c.delay.target()
	c.queueing.unmoved.roundOver(&c.round, c.delay.grain, c.queueing.randomBefore, counts)
}

// countEmptyRounds counts, while competing, the consecutive rounds in which no packet met
// a queue that jitter does not explain. spread returns the lowest of the rounds' maximum
// delays. Jitter explains up to one and a half times that, less the part that queues
// already exclude.
func (c *Controller) countEmptyRounds() {
	jitter := c.delay.spread()*3/2 - c.delay.jitter()
	if c.state != Compete || c.round.maxQueue > jitter+max(c.delay.depth/4, shallowDepth/2) {
		c.competition.emptyRounds = 0
		c.competition.emptyFates = tally{}
		return
	}
	c.competition.emptyRounds++
	c.competition.emptyFates.add(c.round.fates)
}
