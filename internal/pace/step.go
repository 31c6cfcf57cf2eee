package pace

// A State names what the controller is doing.
type State uint8

const (
	Start   State = iota // looks for the rate of an unknown path
	Drain                // empties the queue
	Cruise               // paces at the estimate
	Up                   // looks for more rate
	Dip                  // leaves the path half empty for a round trip, to see its least delay
	Compete              // shares a queue that others fill
	Yield                // leaves a part of the path to others, to see whether its losses go with that
	Dark                 // no ack arrives: sends one packet each PTO
	Stopped              // no ack has arrived for 10 s: sends nothing
)

func (s State) String() string {
	return [...]string{"start", "drain", "cruise", "up", "dip", "compete", "yield", "dark", "stopped"}[s]
}

// step moves the state machine after a feedback. ended is true if the feedback has ended a round.
func (c *Controller) step(t instant, b batch, ended bool) {
	if ended {
		c.rounds++
		c.countRounds()
	}
	if c.judge(t) {
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

// goOn looks for still more after a look has found more rate, or a first flight
// was only a part of the hint. It does so by a start or, over a short queue,
// which would drop a third of a start's packets, by one look after another.
func (c *Controller) goOn(t instant) {
	if c.delay.short() {
		c.enter(Cruise, t)
		c.looks.pause = 0
		return
	}
	c.enter(Start, t)
	c.start.grew(c.Estimate())
}

// enter changes the state. In Dark one packet is sent each PTO, however large, so the
// pacer, which counts bytes, may be seconds ahead: after Dark nothing waits for that.
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
	c.start.careful, c.competition.interrupted = c.start.careful && s == Start, c.competition.interrupted && s == Dip
	if s != Compete && s != Dark && s != Stopped {
		c.competition.sharing = sharing{}
	}
	c.dips.common = false
	if s == Drain {
		c.queueing.drained = c.round.mostQueue
	}
	c.yielding.leave(c.state, s, t, c.round.number)
	c.state, c.since, c.before, c.rounds, c.looks.payingBack = s, t, c.delivery.total, 0, false
}

// countRounds counts the rounds in a row of which something was true.
func (c *Controller) countRounds() {
	c.queueing.roundOver(&c.round, &c.delay, c.Estimate(), c.congestion.random(), c.Estimate()/max(c.fastest, 1))
	c.looks.inVain = c.looks.inVain && c.queueing.quietRounds > 0
	c.countEmptyRounds()
	c.queueing.unmoved.roundOver(&c.round, c.delay.grain, c.queueing.randomBefore, (c.state == Drain || c.state == Compete) && c.round.leastQueue > c.delay.target())
}

// countEmptyRounds counts, while competing, the rounds in a row in which no packet
// met a queue that jitter does not explain. The greatest jitter in a round is taken
// to be one and a half times the least of such greatest ones, which spread returns.
func (c *Controller) countEmptyRounds() {
	jitter := c.delay.spread()*3/2 - c.delay.jitter()
	if c.state != Compete || c.round.mostQueue > jitter+max(c.delay.depth/4, shallow/2) {
		c.competition.emptyRounds, c.competition.emptyFates = 0, tally{}
		return
	}
	c.competition.emptyRounds++
	c.competition.emptyFates.add(c.round.fates)
}
