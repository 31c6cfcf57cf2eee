package pace

import "time"

// A Controller is the congestion controller and pacer of one path. It decides when the next
// packet of bulk may be sent.
//
// It has no lock, so the owner must not call its methods concurrently.
type Controller struct {
	cfg    Config
	local  clock     // the sender's clock. An instant is by this clock unless we say otherwise
	remote peerClock // the receiver's clock
	now    instant

	// The path, as measured from acks.
	delay    delay
	delivery delivery
	queue    time.Duration // shortest queue that a packet of the newest batch met
	gap      time.Duration // usual time between calls to Feedback with data in flight; 0 = unknown
	smallest int           // size of the smallest packet that arrived, in bytes; 0 = none

	// Rates in bytes per second. Only rounds in which we tried to fill the path count, and
	// only those age the maxima.
	filling int64   // number of such rounds
	rates   maximum // arrival rates, the estimate
	carried maximum // what arrived in each round, by the local clock
	fastest float64 // highest estimate on this path; 0 = none yet

	// The newest sample of the rate.
	recent  float64 // arrival rate in bytes per second; 0 = unknown
	limited bool    // its packets were limited; see Sample
	sparse  bool    // its packets were sent at less than a quarter of the estimate

	// Losses, and what they mean.
	loss       share      // lost share of all packets
	congestion congestion // tells the losses of a full queue from random ones
	brake      brake
	undo       undo
	regain     regain // the rate that a flood of losses cost us
	flood      flood
	run        run
	lostRound  uint8   // round in which the newest lost packet was sent; low bits of its number
	credit     float64 // bytes of losses that may yet count as passed; see countAsPassed

	// What the owner told us.
	waiting  int      // bytes of bulk waiting to be sent; see Waiting
	starters starters // controllers starting now, including this one; see Starters
	inFlight int      // bytes in flight at the last Feedback

	batch  batch  // fates reported since the last Feedback
	round  round  // the current round
	number uint16 // number of the newest packet sent, low bits

	// The state.
	state       State
	since       instant // when we entered it
	totalBefore int64   // delivery.total at that time
	rounds      int     // rounds ended since then

	// What belongs to single states, but outlives them.
	start       start
	look        look // the newest look
	looks       looks
	competition competition
	dips        dips
	yielding    yielding
	queueing    queueing
	silence     silence

	// Changes of the path.
	pathSince instant // last Reset; 0 = never. Fates of packets sent before it don't count
	hurried   bool    // the previous path was in use for less than minPathAge
	history   history

	pacer pacer
	burst burst
}

// A batch collects the fates of packets between two calls to Feedback.
type batch struct {
	tally
	newest   Sample
	rtt      time.Duration // shortest round trip; 0 = no packet was acked
	ackDelay time.Duration // how long the receiver held back the acks; set by AckDelay
	way      minDuration   // one-way delay above the path's minimum, the smallest of the batch
	queue    minDuration   // the same, not counting packets held up by a stand of the path
	full     bool          // a full queue dropped a packet; set by judgeLosses
	sinceCut bool          // a packet sent after competition's last cut was lost
}

// New returns a Controller that knows nothing about its path.
func New(c Config) *Controller { return &Controller{cfg: c.withDefaults()} }

// minPathAge is how long a path must have been in use before the next one may begin with a full
// first window. Otherwise a peer that changes its address every round trip gets a first window
// every round trip, which was four times the rate of a slow link: it leaves each path before the
// losses there can show.
const minPathAge = time.Second

// Reset forgets everything about the path. The owner calls it when the path changes, and may
// still report the fates of packets sent before that.
func (c *Controller) Reset(now time.Time) {
	t := c.tick(now)
	fresh := Controller{cfg: c.cfg, local: c.local, remote: c.remote, now: c.now}
	fresh.remote.forgetPath()
	fresh.delivery.total = c.delivery.total
	fresh.round.end = c.delivery.total
	fresh.look.number = c.look.number
	fresh.hurried = c.pathSince > 0 && t-c.pathSince < minPathAge
	fresh.history = c.history
	fresh.pathSince = t
	fresh.silence.lightSince = t
	fresh.silence.lastAck = t
	*c = fresh
}

// unknown returns how many packets we may send in the first round trip of a path that we know
// nothing about.
func (c *Controller) unknown() float64 {
	if c.hurried {
		return minWindow
	}
	return c.starters.unknown()
}

// A history counts the bytes sent and the bytes that arrived since New, over all paths.
type history struct{ sent, arrived int64 }

// wasteful reports whether more bytes are missing than random loss explains. Bytes in flight
// count as missing too.
func (h history) wasteful() bool {
	return float64(h.sent-h.arrived) > max(unexplainedLoss*float64(h.sent), unknownWindow*defaultPacket)
}

// Rest frees the records of single packets, but keeps what we learned from them. The owner calls
// it when nothing has been in flight for some time.
func (c *Controller) Rest() {
	c.delivery.curve = ring[point]{}
	c.delivery.begin = 0
	c.congestion.neighbours.places = ring[neighbour]{}
}

// Sent records that a packet was sent, which takes size bytes on the wire. inFlight is how many
// other bytes are in flight.
//
// The owner must keep the Sample until it reports the packet's fate.
func (c *Controller) Sent(now time.Time, size, inFlight int) Sample {
	t := c.tick(now)
	if inFlight == 0 {
		c.resume(t)
	}
	paused := t-c.silence.lastSent > c.delay.base()
	c.silence.lastSent = t
	c.burst.packetSent(t, size)
	c.history.sent += int64(size)
	if c.pacer.sent(t, size, c.Rate()) {
		c.markLimited(inFlight)
	}
	if !c.start.tried {
		enough := trial(c.Window(), c.cfg.Packet, c.waiting > 0)
		if c.start.try(t, c.delivery.ranDry, inFlight+size, enough) {
			c.round.fates = tally{}
		}
	}
	s := c.delivery.packetSent(t, inFlight, paused)
	s.round = uint8(c.round.number)
	c.number++
	s.number = c.number
	if c.state == Up {
		s.look = c.look.number
	}
	s.limited = s.limited || c.state == Dip || c.gain() < 1
	return s
}

// Played records that play (the game's own traffic) was sent. Play would have to wait in the
// queue that a look makes, so looks are smaller for a while.
func (c *Controller) Played(now time.Time) { c.looks.play.last = c.tick(now) }

// AckDelay tells how long the receiver held back the acks that are reported next, up to the next
// Feedback.
//
// The controller subtracts that from their round trips, but not below the minimum round trip
// (RFC 9002, section 5.3). Since the receiver may lie, the first round trip is taken as it is.
func (c *Controller) AckDelay(d time.Duration) { c.batch.ackDelay = d }

// Acked reports that a packet of size bytes arrived. arrival is when, by the receiver's clock, or
// zero if unknown.
func (c *Controller) Acked(now time.Time, s Sample, size int, arrival time.Time) {
	t := c.tick(now)
	c.history.arrived += int64(size)
	if s.sent < c.pathSince {
		return
	}
	b := &c.batch
	c.yielding.fates.acked++
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
	} else {
		c.noteArrival(t, s, size, arrival)
	}
}

// noteArrival learns from the time at which an acked packet arrived.
func (c *Controller) noteArrival(t instant, s Sample, size int, arrival time.Time) {
	b := &c.batch
	a, floor := c.remote.arrival(t, s.sent, arrival)
	if floor.known {
		c.delay.measureAnew(t, floor)
		c.delivery.measureAnew()
	}
	c.delivery.arrive(s, size, a)
	c.burst.arrive(s.sent, a)
	c.delay.arrive(t, a-s.sent)
	c.noteSize(size)
	queue := a - s.sent - c.delay.way.min - c.ownTime(size)
	b.way.note(queue)
	if c.delivery.stand.heldUp(s.sent + c.delay.way.min + c.queue + c.delay.jitter()) {
		queue = min(queue, a-c.delivery.stand.ended)
	} else {
		b.queue.note(queue)
	}
	c.congestion.acked(t, s.sent, queue, c.delay.jitter(), c.sight())
}

// RoundTrip reports a round trip. Only the shortest one of a batch counts.
//
// Acked takes care of this itself. Probes aren't reported to Sent, so the owner calls RoundTrip
// for the probe whose ack ends an outage, but for no others: if every probe counted, controllers
// would share a path less fairly.
func (c *Controller) RoundTrip(rtt time.Duration) {
	b := &c.batch
	if c.delay.rtt.known && rtt-b.ackDelay >= c.delay.rtt.min {
		rtt -= b.ackDelay
	}
	if b.rtt == 0 || rtt < b.rtt {
		b.rtt = max(rtt, 1)
	}
}

// noteSize updates what ownTime works with.
func (c *Controller) noteSize(size int) {
	if c.smallest == 0 || size < c.smallest {
		c.smallest = size
	}
	c.fastest = max(c.fastest, c.Estimate())
}

// sight returns what rates and round trips show about the bottleneck right now.
func (c *Controller) sight() sight {
	s := sight{
		step:   c.delivery.grain,
		long:   c.delay.long(max(c.delay.latest, c.batch.rtt)),
		stands: c.delay.stands(),
	}
	if c.fastest > 0 {
		s.grain = sendTime(c.cfg.Packet, c.fastest)
	}
	return s
}

// ownTime returns how much longer a packet of size bytes takes at the bottleneck than the
// smallest packet did. The minimum delay may well be that of a small packet of play, and without
// this correction every full packet would seem to have met a queue.
//
// It goes by the highest estimate we ever had for the path, because our share of it now may be
// small. With the current rate, sixteen controllers over a queue of an eighth of the product
// didn't recognize that queue and lost 12 %.
func (c *Controller) ownTime(size int) time.Duration {
	if c.fastest == 0 {
		return 0
	}
	return sendTime(size-c.smallest, c.fastest)
}

// Lost reports that a packet of size bytes was declared lost. If it arrives after all, the owner
// calls Spurious and then Acked for it.
func (c *Controller) Lost(now time.Time, s Sample, size int) {
	c.tick(now)
	if s.sent < c.silence.lightSince {
		return // the outage took it, or it was sent before Reset
	}
	c.undo.noteLost(s)
	if s.sent < c.start.answered {
		// The end of the start has already answered this one.
		c.round.losses().pass()
		return
	}
	seen := c.sight()
	room := c.congestion.lost(s.sent, seen)
	c.yielding.lost(s.number == c.run.newest+1)
	consecutive := c.run.add(s.number) && room && !seen.long
	c.batch.addLost(consecutive)
	c.burst.lost()
	c.start.lost += size
	c.lostRound = s.round
	c.round.losses().add(s.number)
	c.round.sentIn(s.round).addLost(consecutive)
	c.countAsPassed(size)
	c.batch.sinceCut = c.batch.sinceCut || s.sent >= c.competition.cut
	if s.look != 0 && s.look == c.look.number {
		c.look.outcome.addLost(consecutive)
	}
}

// Feedback ends a batch of calls to Acked and Lost, and updates the rate, the window and the
// state. inFlight is how many bytes are still in flight.
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
			b.lost, b.consecutive = 0, 0
		}
		b.rtt = c.silence.trip(t, b.rtt)
		c.learn(t, &b)
	}
	c.judgeLosses(t, &b)
	ended := b.acked > 0 && b.newest.delivered >= c.round.end
	c.step(t, b, ended)
	if ended {
		c.endRound(t)
	}
}

// judgeLosses sets b.full if a full queue caused losses in the batch.
func (c *Controller) judgeLosses(t instant, b *batch) {
	c.round.fates.add(b.tally)
	c.loss.note(b.lost, b.acked)

	// If we hardly send anything, it isn't us who fill the queue. We learn from its losses but
	// don't slow down for them.
	learn := c.state != Start && c.round.fates.share() < unexplainedLoss
	b.full = c.congestion.endBatch(t, c.sight(), c.state == Compete, learn) && !c.sparse

	// In Start, losses show the queue's depth only if there are more than random loss explains.
	if b.full && (c.state != Start || c.round.fates.events().above(maxRandomLoss)) {
		c.delay.noteDepth(t, c.congestion.deepest.queue)
	}
	c.delay.forget(t)
}

// endRound ends a round: it halves the rate if the brake says so, and updates everything that
// counts in rounds.
func (c *Controller) endRound(t instant) {
	halve, maxArrived := c.brake.roundOver(c.round.fates, c.round.arrived(c.delivery.total))
	if halve {
		c.halveAll(t, maxArrived)
	}
	c.flood.roundOver(&c.round)
	c.yielding.roundOver(c.round.number)
	c.delay.roundOver(c.round.minTrip.value)
	c.delay.back = c.round.minBack.value
	arrived := float64(c.round.arrived(c.delivery.total))
	c.carried.add(c.filling, arrived/max(t-c.round.began, c.delay.base()).Seconds())
	if !c.limited && c.round.showsPath(&c.delay) {
		c.filling++
	}
	c.delay.swings.roundOver(&c.round, &c.delay)
	c.delay.calmWay.roundOver(t, c.round.fates, c.start.even, c.state == Compete)
	c.delay.calmTrip.roundOver(t, c.round.fates, c.start.even, c.state == Compete)
	c.regainRate(t)
	c.round.next(t, c.delivery.total, c.queue)
}

// regainRate adds a round to regain, and tries to regain the rate that a flood of losses cost us
// if the time for that has come.
func (c *Controller) regainRate(t instant) {
	if c.lacksData() {
		return
	}
	g := &c.regain
	sharing := c.competition.sharing
	rate := min(c.Estimate(), c.carried.value())
	if c.state == Compete && g.spells {
		// Spells of losses cut the window, while the estimate may stay higher.
		rate = min(rate, c.competition.rate(c.delay.smoothed))
	}
	g.roundOver(t, c.round.fates, c.usual(), rate, c.state == Cruise)
	switch {
	case g.rate > 0 && c.round.maxQueue > c.delay.target():
		// There is a queue, so the path doesn't carry more than this.
		*g = regain{}
	case sharing.on && !sharing.byFlood:
		// A Yield has shown that the losses are our own doing.
		*g = regain{}
	case c.state != Cruise && c.state != Drain && c.state != Compete:
		// Not now: we're trying something else.
	case g.wants(rate):
		g.trial = true
		g.clean = 0
		c.beginStart(t, g.rate)
	}
}

// provenRate returns the estimate, unless that is only a hint. Then it's limited to what the
// arrivals of this round support.
func (c *Controller) provenRate() float64 {
	if c.rates.value() > 0 {
		return c.Estimate()
	}
	return min(c.Estimate(), c.maxAfter(c.round.arrived(c.delivery.total)))
}

// supportedRate returns the highest rate that the arrivals of the last rounds support, by the
// local clock. That's twice what arrived in a round trip or, before there is any such round, the
// most that a first flight can prove.
func (c *Controller) supportedRate() float64 {
	if carried := c.carried.value(); carried > 0 {
		return 2 * carried
	}
	return c.maxAfter(c.round.arrived(c.delivery.total))
}

// passed estimates how many of bytes will arrive, from the share lost since we entered the state.
func (c *Controller) passed(bytes int) int {
	arrived := int(c.delivery.total - c.totalBefore)
	return int(float64(bytes) * float64(arrived) / float64(max(arrived+c.start.lost, 1)))
}

// halveAll obeys the brake: it halves the rate whatever the model says, and to no more than twice
// of what arrived in the best round trip.
func (c *Controller) halveAll(t instant, maxArrived int) {
	c.saveUndo(t, brakeRounds)
	c.rates.set(c.filling, min(c.assumedRate()/2, 2*c.overTrip(maxArrived)))
	c.start.hint = 0
	c.queueing.rateBefore = min(c.queueing.rateBefore, c.rates.value())
	c.congestion.forget()
	if c.state == Compete {
		c.competition.window = min(c.competition.window, c.Estimate()*c.delay.smoothed.Seconds())
		c.cutWindow(t)
	} else {
		c.enter(Drain, t)
	}
}

// goLonger starts over on a path that has become longer, at the rate we had before that looked
// like a queue.
func (c *Controller) goLonger(t instant) {
	c.delay.pathGrew(t, c.round.minQueue)
	c.remote.forgetPath()
	c.queueing.rounds = 0
	c.queueing.unmoved = unmoved{}
	c.beginStart(t, c.queueing.rateBefore)
}

// endByLoss ends a start because of losses.
func (c *Controller) endByLoss(t instant) {
	c.saveUndo(t, 1)
	if c.queue <= c.delay.startFull() {
		c.start.dropped = t
	}
	if c.rates.value() == 0 {
		// The first flight went out at a rate that nothing had confirmed. Its losses show how
		// much of that rate the path carries.
		c.believeLess()
	} else {
		// Slow down once, as for any loss. That makes room for others on the path, and if there
		// are none, a few looks will find the rest.
		c.start.gaveUp = t
		c.start.answered = t
		c.dropHint()
		c.trim()
		c.rates.set(c.filling, multiplicative*c.Estimate())
	}
	c.start.left = c.Estimate()
	c.enter(Drain, t)
}

// believeLess sets the rate of a start that has measured none: what this round's losses leave of
// the rate we assumed.
func (c *Controller) believeLess() {
	rate := min(
		c.assumedRate()*max(1-c.round.fates.share(), minHintPart),
		c.maxAfter(c.round.arrived(c.delivery.total)),
	)
	c.rates.set(c.filling, rate)
	c.start.hint = 0
	c.start.doubtful = true
	c.doubt()
}

// doubt lowers the rate further after a first flight that lost a lot. A token bucket lets the
// flight's earlier half pass at any rate, so only the later half shows what the path carries.
func (c *Controller) doubt() {
	flight, _, _ := c.delivery.flight(0, c.delay.base()/2)
	if late, ok := c.delivery.rateOf(int64(2*c.cfg.Packet), flight.took/2); ok && late.arrival < c.rates.value() {
		c.rates.set(c.filling, max(late.arrival, c.overTrip(0)))
		c.round.fates = tally{} // the new rate answers these losses
	}
}

// Limited records that there is nothing to send although the path could take more. The inFlight
// bytes will therefore show too low a rate, and must not lower the estimate.
func (c *Controller) Limited(inFlight int) {
	c.pacer.waited = false
	c.markLimited(inFlight)
}

// Bursts sets whether the owner would like to send packets in bursts, of as many packets as the
// path passes on at once. By default all packets are spaced.
func (c *Controller) Bursts(wanted bool) { c.burst.wanted = wanted }

// Together returns how many of the packets sent together arrived within a millisecond;
// 0 = unknown.
func (c *Controller) Together() int { return c.burst.passed }

// Waiting tells about how many bytes are waiting to be sent. The owner calls it before it sends
// the first packets of a transfer.
func (c *Controller) Waiting(bytes int) { c.waiting = bytes }

// Starters tells how many controllers are starting now on paths that may share a link, including
// this one. inFlight is how many bytes of bulk this one has in flight.
//
// Each controller begins with its part of the rate that its train promised. They see nothing of
// each other for a round trip, and would lose most of their packets if each began at the whole
// rate.
//
// While this controller has something in flight, the number only grows: others whose start has
// ended keep the rate that they found.
func (c *Controller) Starters(n, inFlight int) {
	c.starters = max(c.starters, starters(n))
	if inFlight == 0 {
		c.starters = starters(n)
	}
}

// partOf returns how much of a hinted rate each of the controllers that start together may use
// for its first flight.
//
// However many there are, the shortest flight still goes out within a round trip, because usually
// they share no more than a fast uplink. Without this, each of 64 transfers of 256 KiB over links
// of 5 to 100 Mbit/s took seven times as long as it would have taken alone. If they do share a
// link, they lose half as much as the same number of New Renos that begin with 32 packets.
func (c *Controller) partOf(hint float64) float64 {
	return min(hint, max(c.starters.part(hint), c.cfg.shortestFlight()/c.delay.base().Seconds()))
}

// Guess reports a round trip of other packets on the path, such as QUIC's, or those that opened
// the carrier. The shortest one counts until Acked reports the first of the controller's own.
func (c *Controller) Guess(rtt time.Duration) {
	if d := &c.delay; !d.rtt.known && rtt > 0 && (d.guess == 0 || rtt < d.guess) {
		d.smoothed = rtt
		d.varied = rtt / 2
		d.guess = rtt
	}
}

// lacksData reports whether the sender recently had too little data to fill its window. Such a
// window proves nothing (RFC 7661): one surge after another would raise it to any size, and the
// next bulk would then be sent with it.
func (c *Controller) lacksData() bool { return c.delivery.limited > c.delivery.total }

// markLimited marks the inFlight bytes as limited, meaning that the path might have carried more.
func (c *Controller) markLimited(inFlight int) {
	c.delivery.limited = c.delivery.total + int64(inFlight)
	c.delivery.ranDry = true
}

// State returns the controller's state.
func (c *Controller) State() State { return c.state }

// Estimate returns our estimate of the bottleneck's rate, or of our share of it, in bytes per
// second; 0 = unknown.
func (c *Controller) Estimate() float64 {
	return max(c.start.hint, c.rates.value())
}

// Delivered returns the rate at which packets arrived, in bytes per second; 0 = unknown. Unlike
// Estimate, it doesn't go by what a train promised.
func (c *Controller) Delivered() float64 { return c.rates.value() }

// Queue returns how long the packets acked most recently waited in a queue.
func (c *Controller) Queue() time.Duration { return c.queue }

// Loss returns the smoothed share of lost packets, from 0 to 1.
func (c *Controller) Loss() float64 { return c.loss.value }

// RTT returns the latest, the smoothed and the minimum round trip; 0 = unknown.
func (c *Controller) RTT() (latest, smoothed, least time.Duration) {
	return c.delay.latest, c.delay.smoothed, c.delay.rtt.min
}

// PTO returns the probe timeout (RFC 9002, section 6.2.1).
func (c *Controller) PTO() time.Duration { return c.delay.pto(c.cfg.AckDelay) }

// tick advances the controller's clock to now and returns it as an instant. The clock never goes
// back, even if now does.
func (c *Controller) tick(now time.Time) instant {
	c.now = max(c.now, c.local.at(now))
	return c.now
}

// learn updates round trips, queue and rate from the acked packets of a batch.
func (c *Controller) learn(t instant, b *batch) {
	c.delay.trip(t, b.rtt)
	c.round.noteTrip(b.rtt)
	c.delay.calmTrip.note(b.rtt)
	if b.way.known {
		c.delay.calmWay.note(b.way.value + c.delay.way.min)
		c.round.minBack.note(b.rtt - c.delay.base() - max(b.way.value, 0))
	}
	if b.queue.known {
		c.round.noteWait(b.queue.value)
		c.queue = max(b.queue.value-c.delay.jitter(), 0)
		c.round.note(c.queue)
	}
	c.delivery.grain = c.delay.base() / 64
	c.delivery.stand.threshold = c.minStand()
	s, ok := c.sample(b.newest)
	if !ok {
		return
	}
	rate := s.shown()
	c.limited = s.limited || s.held || s.stood
	if !s.stood {
		c.recent = s.arrival
	}
	c.sparse = s.limited && c.state != Dip && s.sent < c.Estimate()/4
	// A held sample shows too low a rate, but it may be the only one we'll ever get. A start
	// waits some rounds for a better one, since otherwise sixteen controllers that begin together
	// share less fairly.
	unknown := c.Estimate() == 0 && (c.state != Start || c.rounds >= flatRounds) && !s.limited && !s.stood
	if b.newest.sent >= c.start.gaveUp && (!c.limited || unknown || rate > c.assumedRate()) {
		c.rates.add(c.filling, rate)
	}
	if known := c.rates.value(); known > 0 {
		c.delay.noteGrain(sendTime(c.cfg.Packet, known))
		if c.state != Start {
			c.start.hint = 0
		}
	}
}

// minStand returns how late an arrival must be to show that the path stood still, or 0 if that
// can't be told.
//
// In the first start on a path it can't, because the trains and bursts of others who begin at the
// same time leave gaps as well. When those counted, they hid the queue, and sixteen controllers
// that began within 100 ms lost 6 % instead of 3 %.
func (c *Controller) minStand() time.Duration {
	if c.state == Start && c.look.number == 0 {
		return 0
	}
	return c.delay.still()
}

// sample returns the rate that the latest arrivals show. It usually takes a round trip's worth of
// them, because over less than that a rate is mostly noise.
func (c *Controller) sample(newest Sample) (slope, bool) {
	if c.round.number < 2 && c.state == Start && c.starters <= 1 {
		// In the first rounds of a start a few packets have to do, but at least minWindow: with
		// only two packets of play, jitter could make up any rate in place of the train's. This
		// won't work if others are starting too, since the queue then lets our packets through
		// in clumps, which show the bottleneck's rate rather than our share.
		if s, ok := c.delivery.rateOf(int64(minWindow*c.cfg.Packet), min(c.delay.base()/8, minStanding)); ok {
			return s, true
		}
	}
	if c.look.swift && newest.look == c.look.number {
		return c.delivery.rate(c.lookTime() * 3 / 4) // the look is over sooner than a round trip
	}
	return c.delivery.rate(c.delay.reach())
}
