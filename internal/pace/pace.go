package pace

import "time"

// Controller paces the bulk packets of one path. It is a plain value for one goroutine at a time.
type Controller struct {
	cfg    Config
	local  clock
	remote clock
	now    instant

	// The path, as measured.
	delay    delay
	delivery delivery
	rates    maximum       // delivery and play, by rounds that were to fill the path
	filling  int64         // such rounds so far: others do not age the estimate
	held     bool          // the newest sample is of packets that were not to fill the path
	little   bool          // and that left at less than a quarter of the rate that it takes
	hint     float64       // rate to begin with, from the train or from QUIC; 0 = measured or unknown
	careful  bool          // Start has a hint that was measured: begin at it, not at twice it, until it is confirmed
	recent   float64       // arrival rate by the newest sample, play included
	gap      time.Duration // usual time between two feedbacks while data is in flight

	// Losses.
	loss       share      // of all packets
	congestion congestion // tells those of a full queue
	brake      brake
	undo       undo
	credit     float64 // bytes of lost packets that may count as passed

	// What the path is used for beside bulk.
	play     float64
	quicCwnd int
	waiting  int // bytes of bulk

	// The batch of fates that Feedback closes.
	batch batch

	// The current round: it ends when a packet that left after its beginning arrives.
	round          int64
	roundEnd       int64 // of delivery.total
	roundLeft      tally
	standing       time.Duration // least queue in it
	crest          time.Duration // greatest queue in it
	standingBefore time.Duration // least queue in the round before
	queue          time.Duration // latest

	// What the controller does.
	state      State
	since      instant // of the state
	before     int64   // delivery.total at its beginning
	rounds     int     // that ended in the state
	flat       int     // rounds of Start without growth
	full       float64 // the rate that rounds of Start are compared with
	pause      int     // rounds of Cruise until the next look
	look       look
	extra      float64 // gain of looks above 1; less than lookGain's counts as that
	payingBack bool    // Drain follows a look, and the queue is not twice the target
	shallow    bool    // the last look met loss in place of a queue: the path drops what is over its rate
	idle       int     // rounds in a row in which next to no queue was seen
	vain       bool    // a look in them found nothing
	stays      int     // rounds in a row with a queue above half the target
	rateBefore float64 // the estimate before them
	rival      instant // when the last competitor was seen

	// Compete.
	window       float64       // bytes
	cut          instant       // of the window: losses of packets that left before it are the same epoch's
	lossAnswered instant       // when losses of a full queue were last met without competing
	emptyRounds  int           // rounds in a row with next to no queue
	emptyTally   tally         // what left in them, and its fate
	doubts       bool          // Dip interrupts it
	burnt        instant       // when a start met losses in place of a queue
	dwell        time.Duration // that it lasts at least on a short queue
	yielded      instant       // when a loss last made us yield
	yieldDepth   time.Duration // the queue that dropped it

	// Silence.
	heard    instant // when the last ack came, or, if later, when a packet left into an empty path
	left     instant // when the last packet left
	born     instant // packets that left before it say nothing: the path has changed
	deaf     instant // losses of packets that left before it are not the path's usual: it was dark
	inFlight int

	pacer pacer
}

// batch collects the fates between two calls of Feedback.
type batch struct {
	tally
	newest   Sample
	rtt      time.Duration // least
	ackDelay time.Duration // of the receiver
	queue    time.Duration // least
	arrival  bool          // queue is known
	full     bool          // losses of a full queue are among it
	lately   bool          // a packet was lost that left after the last cut
}

// New returns a controller that knows nothing of its path.
func New(c Config) *Controller { return &Controller{cfg: c.withDefaults()} }

// Reset forgets the path, which has changed. Packets that left before may still be reported.
func (c *Controller) Reset(now time.Time) {
	t := c.tick(now)
	fresh := Controller{cfg: c.cfg, local: c.local, remote: c.remote, now: c.now, play: c.play}
	fresh.delivery.total = c.delivery.total
	fresh.roundEnd = c.delivery.total
	fresh.look.number = c.look.number
	fresh.born, fresh.deaf, fresh.heard = t, t, t
	*c = fresh
}

// Sent records that a packet of size bytes on the wire left while inFlight others were under way, and returns what to
// keep of it.
func (c *Controller) Sent(now time.Time, size, inFlight int) Sample {
	t := c.tick(now)
	if inFlight == 0 {
		c.resume(t)
	}
	paused := t-c.left > c.delay.base()
	c.left = t
	if c.pacer.sent(t, size, c.Rate()) {
		c.lack(inFlight)
	}
	s := c.delivery.leave(t, inFlight, paused)
	if c.state == Up {
		s.look = c.look.number
	}
	s.limited = s.limited || c.state == Dip || c.gain() < 1
	return s
}

// AckDelay says for how long the receiver held back the acks that follow, up to Feedback. The round trip that they show is less
// by that, but never less than the least that was seen (RFC 9002, 5.3).
func (c *Controller) AckDelay(d time.Duration) { c.batch.ackDelay = d }

// Acked says that a packet arrived, when by the receiver's clock; a zero arrival is unknown.
func (c *Controller) Acked(now time.Time, s Sample, size int, arrival time.Time) {
	t := c.tick(now)
	if s.sent < c.born {
		return
	}
	b := &c.batch
	c.credit = min(c.credit+float64(size)*c.usual()/(1-c.usual()), float64(creditPackets*c.cfg.Packet))
	b.acked++
	if s.look != 0 && s.look == c.look.number {
		c.look.outcome.acked++
	}
	rtt := t - s.sent
	if least := c.delay.rtt.least; rtt-b.ackDelay >= least {
		rtt -= b.ackDelay
	}
	if b.rtt == 0 || rtt < b.rtt {
		b.rtt = max(rtt, 1)
	}
	if s.sent >= b.newest.sent {
		b.newest = s
	}
	if arrival.IsZero() {
		c.delivery.arrive(s, size, 0)
		return
	}
	a := c.remote.at(arrival)
	c.delivery.arrive(s, size, a)
	c.delay.arrive(t, a-s.sent)
	queue := a - s.sent - c.delay.way.least
	if !b.arrival || queue < b.queue {
		b.queue, b.arrival = queue, true
	}
	c.congestion.jittery = c.delay.jitter() > 0
	c.congestion.acked(t, s.sent, queue)
}

// Lost says that a packet is counted as lost. A packet may still be Acked after.
func (c *Controller) Lost(now time.Time, s Sample, size int) {
	c.tick(now)
	if s.sent < c.deaf {
		return
	}
	c.batch.lost++
	if s.sent < c.undo.before && c.undo.open > 0 {
		c.undo.open++
	}
	c.congestion.lost(s.sent)
	c.pass(size)
	c.batch.lately = c.batch.lately || s.sent >= c.cut
	if s.look != 0 && s.look == c.look.number {
		c.look.outcome.lost++
	}
}

// Feedback closes a batch of Acked and Lost and decides what to do next.
func (c *Controller) Feedback(now time.Time, inFlight int) {
	t := c.tick(now)
	b := c.batch
	c.batch = batch{}
	c.inFlight = inFlight
	if b.acked+b.lost == 0 {
		return
	}
	if b.acked > 0 {
		if c.hear(t, b.newest) {
			b.lost = 0
		}
		c.learn(t, &b)
	}
	c.blame(t, &b)
	ended := b.acked > 0 && b.newest.delivered >= c.roundEnd
	c.step(t, b, ended)
	if ended {
		c.endRound(t)
	}
}

// blame finds out what the losses of a batch mean. While there is little to send they are not those of a queue that we fill:
// whatever is learnt from them, they cost no rate.
func (c *Controller) blame(t instant, b *batch) {
	c.roundLeft.add(b.tally)
	c.loss.note(b.lost, b.acked)
	learn := c.state != Start && c.roundLeft.share() < blind
	if b.full = c.congestion.verdict(t, c.state == Compete, learn) && !c.little; b.full {
		c.delay.sound(t, c.congestion.deepest)
	}
	c.delay.forget(t)
}

func (c *Controller) endRound(t instant) {
	if c.brake.roundOver(c.roundLeft) {
		c.halveAll(t)
	}
	c.round++
	if !c.held {
		c.filling++
	}
	c.roundEnd = c.delivery.total
	c.roundLeft = tally{}
	c.delay.calmWay.roundOver(t)
	c.delay.calmTrip.roundOver(t)
	c.standingBefore, c.standing, c.crest = c.standing, c.queue, c.queue
}

// halveAll is the circuit breaker: whatever was believed of the path is too much.
func (c *Controller) halveAll(t instant) {
	c.remember(t)
	c.rates.set(c.filling, c.Estimate()/2)
	c.hint = 0
	c.congestion.forget()
	if c.state == Compete {
		c.halve(t)
	} else {
		c.enter(Drain, t)
	}
}

// Limited says that there is nothing more to send though the path would take it: what inFlight bytes will show of the
// path's rate never lowers the estimate.
func (c *Controller) Limited(inFlight int) {
	c.pacer.waited = false
	c.lack(inFlight)
}

// Waiting tells about how many bytes are to be sent, before the first packets of a transfer leave.
func (c *Controller) Waiting(bytes int) { c.waiting = bytes }

// lack says that the path might have carried more than the inFlight bytes.
func (c *Controller) lack(inFlight int) {
	c.delivery.limited = c.delivery.total + int64(inFlight)
	c.delivery.lacks = true
}

// State returns what the controller is doing, for plots and statistics.
func (c *Controller) State() State { return c.state }

// Estimate returns the bottleneck's rate in bytes a second, as far as bulk and play together reach it.
func (c *Controller) Estimate() float64 {
	return max(c.hint, c.rates.value())
}

// Queue returns the delay of the latest packets above the least.
func (c *Controller) Queue() time.Duration { return c.queue }

// Loss returns the smoothed share of packets lost.
func (c *Controller) Loss() float64 { return c.loss.value }

// RTT returns round trips; zero = unknown.
func (c *Controller) RTT() (latest, smoothed, least time.Duration) {
	return c.delay.latest, c.delay.smoothed, c.delay.rtt.least
}

// PTO returns after how long without an ack a probe is due.
func (c *Controller) PTO() time.Duration { return c.delay.pto(c.cfg.AckDelay) }

// tick takes a time; one that runs back counts as the latest.
func (c *Controller) tick(now time.Time) instant {
	c.now = max(c.now, c.local.at(now))
	return c.now
}

// learn takes what the acked packets tell of the path.
func (c *Controller) learn(t instant, b *batch) {
	c.delay.trip(t, b.rtt)
	c.delay.calmTrip.note(b.rtt)
	if b.arrival {
		c.delay.calmWay.note(b.queue + c.delay.way.least)
		c.queue = max(b.queue-c.delay.jitter(), 0)
		c.standing = min(c.standing, c.queue)
		c.crest = max(c.crest, c.queue)
	}
	c.delivery.grain = c.delay.base() / 64
	s, ok := c.delivery.rate(c.shortest(b.newest))
	if !ok {
		return
	}
	rate := s.shown() + c.play
	c.recent, c.held = s.arrival+c.play, s.limited
	c.little = s.limited && c.state != Dip && s.sent+c.play < c.Estimate()/4
	if !s.limited || rate > c.Estimate() {
		c.rates.add(c.filling, rate)
	}
	c.delay.grain = over(c.cfg.Packet, c.rates.value())
	if c.state != Start && c.rates.value() > 0 {
		c.hint = 0
	}
}

// shortest is the interval below which a sample is noise: a round trip, but in the first ones, of which a part must do, and
// at the end of a swift look.
func (c *Controller) shortest(newest Sample) time.Duration {
	switch {
	case c.round < 2:
		return min(c.delay.base()/8, minStanding)
	case c.look.swift && newest.look == c.look.number:
		return c.lookTime() * 3 / 4
	}
	return c.delay.reach()
}
