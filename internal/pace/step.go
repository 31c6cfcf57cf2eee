package pace

// A State is what a Controller is doing. Start leads to Drain, and Drain to Cruise. From Cruise the
// controller occasionally looks for more rate, which leads to Up and then to Drain again. It
// competes while others fill the queue. When no acks arrive, every state leads to Dark and
// eventually to Stopped.
type State uint8

const (
	Start   State = iota // searching for the rate of an unknown path
	Drain                // emptying the queue
	Cruise               // pacing at the estimated rate
	Up                   // trying a higher rate, which is called a look
	Dip                  // leaving the path half empty for a round, to measure the minimum delay
	Compete              // sharing a queue that others fill
	Dark                 // sending one packet per PTO, because no ack arrives
	Stopped              // sending nothing, because no ack has arrived for 10 s
)

func (s State) String() string {
	return [...]string{
		Start:   "start",
		Drain:   "drain",
		Cruise:  "cruise",
		Up:      "up",
		Dip:     "dip",
		Compete: "compete",
		Dark:    "dark",
		Stopped: "stopped",
	}[s]
}

// step runs the state machine after a batch of feedback. ended is set if the batch ended a round.
func (c *Controller) step(t instant, b batch, ended bool) {
	if ended {
		c.rounds++
		c.countRounds()
	}
	if c.judgeLook(t) {
		c.goOn(t)
		return
	}
	if c.checkDip(t) {
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
	case Compete:
		c.stepCompete(t, b, ended)
	}
}

// goOn goes on probing after a look that found more rate, or after a first flight that used only a
// part of the hint.
//
// Normally this means another start. On a path with a short queue, a start would lose a third of
// its packets, so we immediately take another look instead.
func (c *Controller) goOn(t instant) {
	if c.delay.short() {
		c.enter(Cruise, t)
		c.looks.pause = 0
		return
	}
	c.enter(Start, t)
	c.start.grew(c.Estimate())
}

// enter moves to another state, and resets everything that is valid only within one state.
func (c *Controller) enter(s State, t instant) {
	if c.state == Dark || c.state == Stopped {
		// While the path was dark, we sent one packet per PTO whatever its size, but the pacer
		// accounted for them as usual, so its next time may be seconds away. Cancel that debt.
		c.pacer.next = min(c.pacer.next, t)
	}
	switch c.state {
	case Start, Compete, Dark, Stopped:
		// What was lost there shows nothing about the losses of cruising.
		c.blame.clear, c.blame.delayed, c.look.rest = tally{}, tally{}, tally{}
	}
	if s == Cruise {
		c.looks.pause = c.looks.drawPause(t)
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
	c.state = s
	c.since = t
	c.totalBefore = c.delivery.total
	c.rounds = 0
	c.looks.payingBack = false
}

// countRounds is called at the end of a round. It counts the rounds in a row with a standing queue,
// those without a queue, and those with a queue that no drain moved.
func (c *Controller) countRounds() {
	part := c.Estimate() / max(c.fastest, 1)
	c.queueing.roundOver(&c.round, &c.delay, c.Estimate(), c.congestion.random(), part)
	c.looks.inVain = c.looks.inVain && c.queueing.quietRounds > 0
	c.countEmptyRounds()
	counts := (c.state == Drain || c.state == Compete) && c.round.minQueue > c.delay.target()
	c.queueing.unmoved.roundOver(&c.round, c.delay.grain, c.queueing.randomBefore, counts)
}

// countEmptyRounds counts the rounds in a row in which no packet met a queue that can't be jitter,
// while we compete. Up to one and a half times the spread may be jitter, since the spread is only
// the lowest of the rounds' maximum delays. The part that delay.jitter returns has already been
// subtracted from the queues.
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
