package pace

import "time"

// Controller paces the bulk packets of one path. It is a plain value for one goroutine at a time, the owner's.
type Controller struct {
	cfg    Config
	local  clock // the sender's
	remote clock // the receiver's
	now    instant

	// The path, as measured by acks.
	delay    delay
	delivery delivery
	rates    maximum       // of delivery, by rounds that were to fill the path
	filling  int64         // such rounds so far: the others do not age the estimate
	fastest  float64       // the greatest estimate of this path
	smallest int           // bytes of the smallest packet that arrived
	limited  bool          // the newest sample is of packets that were not to fill the path
	sparse   bool          // and that left at less than a quarter of the rate that it takes
	recent   float64       // arrival rate by the newest sample
	gap      time.Duration // usual time between two feedbacks while data is in flight
	queue    time.Duration // that the packets of the newest batch met

	// Lost packets: how many, and what they mean.
	loss       share      // of all packets
	congestion congestion // tells those of a full queue
	brake      brake
	undo       undo
	credit     float64 // bytes of lost packets that may count as passed

	waiting  int      // bytes of bulk to send, as the owner tells
	starters starters // who start at present, this one included; the most since something is in flight

	batch     batch // gathers fates until Feedback
	round     round // the current one
	lostRound uint8 // round in which the packet left that was lost last

	// The state, and what the states share.
	state           State
	since           instant // of the state
	before          int64   // delivery.total at its beginning
	rounds          int     // that ended in the state
	quietRounds     int     // in a row, in which next to no queue was seen
	lookedInVain    bool    // a look in them found nothing
	queueRounds     int     // in a row, with a queue above half of the target
	rateBeforeQueue float64 // the estimate before them

	// Start.
	hint         float64 // rate to begin with, from the train or an old estimate; 0 = measured or unknown
	even         bool    // the train came at even distances
	careful      bool    // the hint was measured: begin at it, not at twice it, until it is confirmed
	full         float64 // the rate that rounds are compared with
	flat         int     // rounds without growth
	startDropped instant // when a start last met losses in place of a queue
	startEnded   instant // losses of packets that left before are answered by the end of a start that had measured a rate
	startGaveUp  instant // a part of what it had measured: how packets that left before arrive tells no rate
	flightLost   int     // bytes lost since it began
	doubtful     bool    // a start lost much of its first flight, of which not all is heard

	// Looks for more rate, from Cruise.
	look       look
	pause      int     // rounds of Cruise until the next one
	extra      float64 // gain above 1; less than lookGain's counts as that
	payingBack bool    // Drain follows a look, and the queue is not twice the target
	shallow    bool    // the last look met loss in place of a queue: the path drops what is over its rate

	competition competition

	// Silence.
	lastAck    instant // when the last ack came, or, if later, when a packet left into an empty path
	lastSent   instant
	pathSince  instant // packets that left before say nothing: the path has changed
	lightSince instant // losses of packets that left before are not the path's usual: it was dark
	inFlight   int     // bytes, at the last Feedback

	pacer pacer
}

// batch collects the fates between two calls of Feedback.
type batch struct {
	tally
	newest   Sample
	rtt      time.Duration // least
	ackDelay time.Duration // of the receiver
	way      least         // one-way delay above the least of all
	queue    least         // the same of packets that no stand of the path held up
	full     bool          // losses of a full queue are among it
	lately   bool          // a packet was lost that left after the last cut
}

// New returns a controller that knows nothing of its path.
func New(c Config) *Controller { return &Controller{cfg: c.withDefaults()} }

// Reset forgets the path, which has changed. Packets that left before may still be reported.
func (c *Controller) Reset(now time.Time) {
	t := c.tick(now)
	fresh := Controller{cfg: c.cfg, local: c.local, remote: c.remote, now: c.now}
	fresh.delivery.total = c.delivery.total
	fresh.round.end = c.delivery.total
	fresh.look.number = c.look.number
	fresh.pathSince, fresh.lightSince, fresh.lastAck = t, t, t
	*c = fresh
}

// Rest gives up the memory of single packets, after a silence in which nothing was in flight. What they taught stays.
func (c *Controller) Rest() {
	c.delivery.curve, c.delivery.begin = latest[point]{}, 0
	c.congestion.neighbours = latest[neighbour]{}
}

// Sent records that a packet of size bytes on the wire left while inFlight others were under way, and returns what to
// keep of it.
func (c *Controller) Sent(now time.Time, size, inFlight int) Sample {
	t := c.tick(now)
	if inFlight == 0 {
		c.resume(t)
	}
	paused := t-c.lastSent > c.delay.base()
	c.lastSent = t
	if c.pacer.sent(t, size, c.Rate()) {
		c.markLimited(inFlight)
	}
	s := c.delivery.leave(t, inFlight, paused)
	s.round = uint8(c.round.number)
	if c.state == Up {
		s.look = c.look.number
	}
	s.limited = s.limited || c.state == Dip || c.gain() < 1
	return s
}

// AckDelay says for how long the receiver held back the acks that follow, up to Feedback. The round trip that they show is less
// by that, but never less than the least that was seen (RFC 9002, 5.3): the first is taken as it is, for a receiver who lies.
func (c *Controller) AckDelay(d time.Duration) { c.batch.ackDelay = d }

// Acked says that a packet arrived, when by the receiver's clock; a zero arrival is unknown.
func (c *Controller) Acked(now time.Time, s Sample, size int, arrival time.Time) {
	t := c.tick(now)
	if s.sent < c.pathSince {
		return
	}
	b := &c.batch
	c.credit = min(c.credit+float64(size)*c.usual()/(1-c.usual()), float64(creditPackets*c.cfg.Packet))
	b.acked++
	c.round.sentIn(s.round).acked++
	if s.look != 0 && s.look == c.look.number {
		c.look.outcome.acked++
	}
	c.RoundTrip(t - s.sent)
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
	c.noteSize(size)
	queue := a - s.sent - c.delay.way.least - c.ownTime(size)
	b.way.note(queue)
	if c.delivery.stand.heldUp(s.sent + c.delay.way.least + c.queue + c.delay.jitter()) {
		queue = min(queue, a-c.delivery.stand.ended)
	} else {
		b.queue.note(queue)
	}
	c.congestion.jittery = c.delay.jitter() > 0
	// Jitter is not a queue. Counted as one, 100 ms of it leave almost no packet that met a low queue, so random loss is never learnt:
	// every second transfer on UE's profile Bad took its 5 % for a competitor's (stream.TestSealedOnABadPath).
	c.congestion.acked(t, s.sent, max(0, queue-c.delay.jitter()))
}

// RoundTrip takes a round trip; the least of a batch counts. Besides Acked, the owner calls it for a probe, which Sent does not know, with the
// first ack after an outage. Not for every probe: crowds share a path less fairly by that.
func (c *Controller) RoundTrip(rtt time.Duration) {
	b := &c.batch
	if c.delay.rtt.known && rtt-b.ackDelay >= c.delay.rtt.least {
		rtt -= b.ackDelay
	}
	if b.rtt == 0 || rtt < b.rtt {
		b.rtt = max(rtt, 1)
	}
}

// noteSize keeps what ownTime needs.
func (c *Controller) noteSize(size int) {
	if c.smallest == 0 || size < c.smallest {
		c.smallest = size
	}
	if c.fastest = max(c.fastest, c.Estimate()); c.fastest > 0 {
		c.congestion.grain = over(c.cfg.Packet, c.fastest)
	}
}

// ownTime is what a packet of size bytes takes longer at the bottleneck than the smallest one, of play, whose delay may be the least:
// beside that each full one seems to meet a queue. The greatest rate that was ever believed of the path tells it, and not ours, which may
// be a small share of the bottleneck's: by that sixteen over a queue of an eighth of the product took theirs for no queue, and lost 12 %.
func (c *Controller) ownTime(size int) time.Duration {
	if c.fastest == 0 {
		return 0
	}
	return over(size-c.smallest, c.fastest)
}

// Lost says that a packet is counted as lost. A packet may still be Acked after.
func (c *Controller) Lost(now time.Time, s Sample, size int) {
	c.tick(now)
	if s.sent < c.lightSince {
		return
	}
	if s.sent < c.undo.before && c.undo.open > 0 {
		c.undo.open++
	}
	if s.sent < c.startEnded {
		return
	}
	c.batch.lost++
	c.flightLost += size
	c.lostRound = s.round
	c.round.sentIn(s.round).lost++
	c.congestion.lost(s.sent)
	c.countAsPassed(size)
	c.batch.lately = c.batch.lately || s.sent >= c.competition.cut
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
		if c.noteAck(t, b.newest) {
			b.lost = 0
		}
		c.learn(t, &b)
	}
	c.judgeLosses(t, &b)
	ended := b.acked > 0 && b.newest.delivered >= c.round.end
	c.step(t, b, ended)
	if ended {
		c.endRound(t)
	}
}

// judgeLosses finds out what the losses of a batch mean. While there is little to send they are not those of a queue that we fill:
// whatever is learnt from them, they cost no rate. A start tells no depth but by more losses than random ones are: it judges each by itself.
func (c *Controller) judgeLosses(t instant, b *batch) {
	c.round.fates.add(b.tally)
	c.loss.note(b.lost, b.acked)
	learn := c.state != Start && c.round.fates.share() < blind
	if b.full = c.congestion.verdict(t, c.state == Compete, learn) && !c.sparse; b.full && (c.state != Start || c.round.fates.above(maxRandomLoss)) {
		c.delay.noteDepth(t, c.congestion.deepest)
	}
	c.delay.forget(t)
}

func (c *Controller) endRound(t instant) {
	if c.brake.roundOver(c.round.fates) {
		c.halveAll(t)
	}
	if !c.limited {
		c.filling++
	}
	c.delay.calmWay.roundOver(t, c.round.fates, c.even)
	c.delay.calmTrip.roundOver(t, c.round.fates, c.even)
	c.round.next(c.delivery.total, c.queue)
}

// halveAll is the circuit breaker: whatever was believed of the path is too much, and so is more than twice what came in a round trip.
func (c *Controller) halveAll(t instant) {
	c.remember(t)
	c.rates.set(c.filling, min(c.supposed()/2, 2*c.overTrip(c.round.arrived(c.delivery.total))))
	c.hint, c.rateBeforeQueue = 0, min(c.rateBeforeQueue, c.rates.value())
	c.congestion.forget()
	if c.state == Compete {
		c.competition.window = min(c.competition.window, c.Estimate()*c.delay.smoothed.Seconds())
		c.halve(t)
	} else {
		c.enter(Drain, t)
	}
}

// endByLoss answers what a start lost of a rate that it had measured as any loss is answered, once: who shares the path has room again, and who
// is alone finds the rest by a few looks. What is lost of a first flight tells on, for nothing is known but what was believed.
func (c *Controller) endByLoss(t instant) {
	c.remember(t)
	if c.queue <= c.delay.startFull() {
		c.startDropped = t
	}
	if c.rates.value() == 0 {
		c.believeLess()
	} else {
		c.startGaveUp, c.startEnded = t, t
		c.measured()
		c.trim()
		c.rates.set(c.filling, multiplicative*c.Estimate())
	}
	c.enter(Drain, t)
}

// believeLess takes for the rate, of which nothing was measured, what the losses of a round leave of what was believed.
func (c *Controller) believeLess() {
	rate := min(c.supposed()*max(1-c.round.fates.share(), leastHint), c.mostAfter(c.round.arrived(c.delivery.total)))
	c.rates.set(c.filling, rate)
	c.hint, c.doubtful = 0, true
	c.doubt()
}

// doubt lowers the rate after a start that lost much of its first flight, to what came of the later half of that: a token bucket lets
// the earlier one pass. Then the losses until here are explained.
func (c *Controller) doubt() {
	flight, _, _ := c.delivery.flight(0, c.delay.base()/2)
	if late, ok := c.delivery.rateOf(int64(2*c.cfg.Packet), flight.took/2); ok && late.arrival < c.rates.value() {
		c.rates.set(c.filling, max(late.arrival, c.overTrip(0)))
		c.round.fates = tally{}
	}
}

// Limited says that there is nothing more to send though the path would take it: what inFlight bytes will show of the
// path's rate never lowers the estimate.
func (c *Controller) Limited(inFlight int) {
	c.pacer.waited = false
	c.markLimited(inFlight)
}

// Waiting tells about how many bytes are to be sent, before the first packets of a transfer leave.
func (c *Controller) Waiting(bytes int) { c.waiting = bytes }

// Starters tells how many controllers whose paths may share a link start at present, this one included, and how many bytes of bulk this
// one has in flight. Each begins with its part of what its train promised: all promises together would be lost, and a controller does not
// see the others before a round trip is over. While it has something in flight the number only grows, for who has ended his start keeps
// what he found.
func (c *Controller) Starters(n, inFlight int) {
	if c.starters = max(c.starters, starters(n)); inFlight == 0 {
		c.starters = starters(n)
	}
}

// Guess tells the round trip by other packets, QUIC's or those that open the carrier. The least one counts, until acks tell.
func (c *Controller) Guess(rtt time.Duration) {
	if d := &c.delay; !d.rtt.known && rtt > 0 && (d.guess == 0 || rtt < d.guess) {
		d.smoothed, d.varied, d.guess = rtt, rtt/2, rtt
	}
}

// markLimited says that the path might have carried more than the inFlight bytes.
func (c *Controller) markLimited(inFlight int) {
	c.delivery.limited = c.delivery.total + int64(inFlight)
	c.delivery.ranDry = true
}

// State returns what the controller is doing, for plots and statistics.
func (c *Controller) State() State { return c.state }

// Estimate returns the bottleneck's rate in bytes a second, as far as it was reached.
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
	if b.way.known {
		c.delay.calmWay.note(b.way.value + c.delay.way.least)
	}
	if b.queue.known {
		c.queue = max(b.queue.value-c.delay.jitter(), 0)
		c.round.note(c.queue)
	}
	c.delivery.grain, c.delivery.stand.least = c.delay.base()/64, c.leastStand()
	c.congestion.step = c.delivery.grain
	s, ok := c.sample(b.newest)
	if !ok {
		return
	}
	rate := s.shown()
	if c.limited = s.limited || s.held || s.stood; !s.stood {
		c.recent = s.arrival
	}
	c.sparse = s.limited && c.state != Dip && s.sent < c.Estimate()/4
	if b.newest.sent >= c.startGaveUp && (!c.limited || rate > c.supposed()) {
		c.rates.add(c.filling, rate)
	}
	if known := c.rates.value(); known > 0 {
		c.delay.grain = over(c.cfg.Packet, known)
		if c.state != Start {
			c.hint = 0
		}
	}
}

// leastStand is how late an arrival after a stand is at least. At a path's first start the gaps may be trains and bursts of others
// who begin as well: taken for stands they hid the queue, and sixteen who began within 100 ms lost 6 % in place of 3.
func (c *Controller) leastStand() time.Duration {
	if c.state == Start && c.look.number == 0 {
		return 0
	}
	return c.delay.still()
}

// sample returns what the latest arrivals show of the rate. Over less than a round trip it is noise, but at the end of a swift look,
// and in the first rounds of a start, where a few packets must do: of two of play jitter makes any rate, which took the place of what
// the train had told. Behind a start that met others, or that others began as well, they are the bottleneck's rate, for a queue lets them
// through in clumps.
func (c *Controller) sample(newest Sample) (slope, bool) {
	if c.round.number < 2 && c.state == Start && c.starters <= 1 {
		if s, ok := c.delivery.rateOf(int64(minWindow*c.cfg.Packet), min(c.delay.base()/8, minStanding)); ok {
			return s, true
		}
	}
	if c.look.swift && newest.look == c.look.number {
		return c.delivery.rate(c.lookTime() * 3 / 4)
	}
	return c.delivery.rate(c.delay.reach())
}
