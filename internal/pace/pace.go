package pace

import "time"

// A Controller is the congestion controller and pacer of one path. It decides when the next packet
// of bulk (data of a transfer) may be sent.
//
// It has no lock, so the owner must not call its methods concurrently.
type Controller struct {
	cfg    Config
	local  clock     // the sender's clock; see instant
	remote peerClock // the receiver's clock
	now    instant

	// The path, as measured from acks.
	delay    delay
	delivery delivery
	queue    time.Duration // shortest queue met by a packet of the newest batch
	gap      time.Duration // usual time between calls to Feedback with data in flight; 0 = unknown
	smallest int           // smallest packet that arrived, in bytes; 0 = none has

	// Rates in bytes per second. The maxima count, and age by, only the rounds in which we
	// tried to fill the path.
	filling int64   // number of such rounds
	rates   maximum // arrival rates, the estimate
	carried maximum // rate of arrivals in each round, by the local clock
	fastest float64 // highest estimate on this path; 0 = none yet

	// The newest sample of the rate.
	recent  float64 // arrival rate in bytes per second; 0 = unknown
	limited bool    // its packets were limited; see Sample.limited
	sparse  bool    // its packets were sent at less than a quarter of the estimate

	// Losses, and what they mean.
	loss       share      // share of all packets that were lost
	congestion congestion // tells the losses of a full queue from random ones
	brake      brake
	undo       undo
	regain     regain // the rate we lost to a flood of losses
	flood      flood
	run        run
	lostRound  uint8   // round in which the newest lost packet was sent; low bits of its number
	credit     float64 // bytes of losses that may still count as arrived; see countAsDelivered

	// What the owner reported.
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
	rounds      int     // rounds that ended since then

	// Data of single states that outlives them.
	start       start
	look        look // the newest look
	looks       looks
	competition competition
	dips        dips
	blame       blame
	queueing    queueing
	silence     silence

	// Changes of the path.
	pathSince instant // last Reset; 0 = never. Fates of packets sent earlier don't count
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
	ackDelay time.Duration // how long the receiver delayed the acks; set by AckDelay
	way      minDuration   // smallest one-way delay of the batch, less the path's minimum
	queue    minDuration   // the same, without packets that a stand of the path held up
	full     bool          // a full queue dropped a packet; set by judgeLosses
	sinceCut bool          // a packet sent after competition.cut was lost
}

// New returns a Controller that knows nothing about its path.
func New(c Config) *Controller { return &Controller{cfg: c.withDefaults()} }

// minPathAge is how long a path must be in use before the next one may begin with a full first
// window. Otherwise a peer could get a first window every round trip, which may be four times the
// rate of a slow link, by changing its address so often that it leaves each path before losses show
// up.
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
	fresh.looks.before = c.look.number
	fresh.hurried = c.pathSince > 0 && t-c.pathSince < minPathAge
	fresh.history = c.history
	fresh.pathSince = t
	fresh.silence.lightSince = t
	fresh.silence.lastAck = t
	*c = fresh
}

// unknown returns how many packets may be sent in the first round trip of a path that we know
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

// Rest frees the memory for individual packets, but keeps what was learned from them. The owner
// calls it when nothing has been in flight for some time.
func (c *Controller) Rest() {
	c.delivery.free()
	c.congestion.neighbours.free()
}

// Sent records that a packet of size bytes, as counted on the wire, was sent. inFlight is how many
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
	if c.start.careful {
		c.noteOpening(t, size)
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
	s.look = c.lookMark()
	s.limited = s.limited || c.state == Dip || c.gain() < 1
	return s
}

// opens reports whether the next packet belongs to the opening of a first flight. There is one only
// if the hint is less than the rate at which an unknown path begins, but no less than an opening
// per round trip. Over a slower or shorter path, the opening's queue would last so long that we
// took it for jitter: at 256 kbit/s and 20 ms, transfers then kept 175 ms of queue instead of 69.
func (c *Controller) opens() bool {
	s := &c.start
	packets := s.hint * c.delay.base().Seconds() / float64(c.cfg.Packet)
	doubted := openingPackets <= packets && packets < c.unknown()
	return s.careful && doubted && !s.opening.over() && c.starters <= 1 && c.waiting > 0
}

// noteOpening is called when a packet of a careful first flight is sent. Each flight has an opening
// of its own. After it, the pacer waits until the path has had time for it.
func (c *Controller) noteOpening(t instant, size int) {
	o := &c.start.opening
	if c.delivery.ranDry {
		*o = opening{}
	}
	if !c.opens() {
		return
	}
	o.packetSent(t, size)
	if o.over() {
		c.pacer.next = max(c.pacer.next, o.began+sendTime(o.bytes, c.Rate()))
	}
}

// Played records that play (the game's own traffic) was sent. Looks (trials of a higher rate) are
// smaller for a while after that, because play has to wait in the queues that they build.
func (c *Controller) Played(now time.Time) { c.looks.play.last = c.tick(now) }

// AckDelay reports how long the receiver delayed the acks of the current batch, which ends with the
// next Feedback. The owner calls it before it reports those acks.
//
// The controller subtracts this delay from round trips, unless the result would be below the
// minimum round trip (RFC 9002, section 5.3). It leaves the first round trip as it is, since the
// receiver may lie.
func (c *Controller) AckDelay(d time.Duration) { c.batch.ackDelay = d }

// Acked reports that a packet of size bytes arrived. arrival is the time of its arrival by the
// receiver's clock, or zero if unknown.
func (c *Controller) Acked(now time.Time, s Sample, size int, arrival time.Time) {
	t := c.tick(now)
	c.history.arrived += int64(size)
	if s.sent < c.pathSince {
		return
	}
	b := &c.batch
	c.competition.sharing.stretch.fates.acked++
	usual := c.usual()
	c.credit = min(c.credit+float64(size)*usual/(1-usual), float64(creditPackets*c.cfg.Packet))
	b.acked++
	c.round.sentIn(s.round).acked++
	c.look.of(s).acked++
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
		c.look.shown = slope{}
	}
	c.delivery.arrive(s, size, a)
	if c.look.swift && s.look == c.look.number {
		c.look.shown, _ = c.delivery.rate(c.lookTime() * 3 / 4)
	}
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
	met, notHigh := c.congestion.acked(t, s.sent, queue, c.delay.jitter(), c.sight())
	if notHigh {
		c.blame.at(met).acked++
	}
}

// RoundTrip reports a round trip. Only the shortest one of a batch counts.
//
// Acked calls it for every packet. Probes aren't reported to Sent, so the owner must call RoundTrip
// for the probe whose ack ends an outage. It must not do so for other probes, because controllers
// would share a path less fairly if every probe counted.
func (c *Controller) RoundTrip(rtt time.Duration) {
	b := &c.batch
	if c.delay.rtt.known && rtt-b.ackDelay >= c.delay.rtt.min {
		rtt -= b.ackDelay
	}
	if b.rtt == 0 || rtt < b.rtt {
		b.rtt = max(rtt, 1)
	}
}

// noteSize updates smallest and fastest, on which ownTime relies.
func (c *Controller) noteSize(size int) {
	if c.smallest == 0 || size < c.smallest {
		c.smallest = size
	}
	c.fastest = max(c.fastest, c.Estimate())
}

// sight returns what rates and round trips currently show about the bottleneck.
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

// ownTime returns how much longer a packet of size bytes takes at the bottleneck than the smallest
// packet did. The minimum delay may be that of a small packet of play (the game's own traffic), and
// without this correction every full packet would seem to meet a queue.
//
// It uses the highest estimate that we ever had for the path, because our current share of it may
// be small. If it used the current rate, sixteen controllers over a queue of an eighth of the
// bandwidth-delay product wouldn't recognize that queue, and would lose 12 %.
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
		return // an outage swallowed it, or it was sent before Reset
	}
	c.undo.noteLost(s)
	if s.sent < c.start.answered {
		// The end of a start already answered this loss.
		c.round.losses().pass()
		return
	}
	seen := c.sight()
	met, notHigh := c.congestion.lost(s.sent, seen)
	if !c.run.continuedBy(s.number) { // of a run of losses, only the first counts
		c.competition.sharing.stretch.fates.lost++
		if notHigh {
			c.blame.at(met).lost++
		}
	}
	consecutive := c.run.add(s.number) && notHigh && !seen.long
	c.batch.addLost(consecutive)
	c.burst.lost()
	c.start.lost += size
	c.lostRound = s.round
	c.round.losses().add(s.number)
	c.round.sentIn(s.round).addLost(consecutive)
	c.countAsDelivered(size)
	c.batch.sinceCut = c.batch.sinceCut || s.sent >= c.competition.cut
	c.look.of(s).addLost(consecutive)
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

	// A sender of only a few packets isn't the one that fills the queue, so it learns from the
	// losses but doesn't slow down for them.
	learn := c.state != Start && c.round.fates.share() < unexplainedLoss
	b.full = c.congestion.endBatch(t, c.sight(), c.state == Compete, learn) && !c.sparse

	// In Start, losses show the depth of the queue only if there are more of them than random loss
	// explains.
	if b.full && (c.state != Start || c.round.fates.events().above(maxRandomLoss)) {
		c.delay.noteDepth(t, c.congestion.deepest.queue)
	}
	c.delay.forget(t)
}

// endRound ends a round. It halves the rate if the brake demands that, and updates everything that
// is counted in rounds.
func (c *Controller) endRound(t instant) {
	halve, maxArrived := c.brake.roundOver(c.round.fates, c.round.arrived(c.delivery.total))
	if halve {
		c.halveAll(t, maxArrived)
	}
	c.flood.roundOver(&c.round)
	c.competition.sharing.stretch.roundOver(c.round.number)
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

// regainRate adds a round to regain. If a trial is due, it starts again at the rate from before a
// flood of losses.
func (c *Controller) regainRate(t instant) {
	if c.lacksData() {
		return
	}
	g := &c.regain
	sharing := c.competition.sharing
	rate := min(c.Estimate(), c.carried.value())
	if c.state == Compete && g.spells {
		// Spells of losses cut the window, but not necessarily the estimate.
		rate = min(rate, c.competition.rate(c.delay.smoothed))
	}
	g.roundOver(t, c.round.fates, c.usual(), rate, c.state == Cruise)
	queued := g.rate > 0 && c.round.maxQueue > c.delay.target() // so the path carries no more
	ownLosses := sharing.on && !sharing.byFlood                 // as looks or queues have shown
	if queued || ownLosses {
		*g = regain{}
		return
	}
	steady := c.state == Cruise || c.state == Drain || c.state == Compete // no other trial is open
	if steady && g.trialDue(rate) {
		g.beginTrial()
		c.beginStart(t, g.rate)
	}
}

// provenRate returns the estimate. If that is only a hint, it returns no more than the arrivals of
// this round support.
func (c *Controller) provenRate() float64 {
	if c.rates.value() > 0 {
		return c.Estimate()
	}
	return min(c.Estimate(), c.maxAfter(c.round.arrived(c.delivery.total)))
}

// supportedRate returns the highest rate that the arrivals of the last rounds support, by the local
// clock. That is twice what arrived in a round trip or, before there is any such round, the highest
// rate that a first flight can prove.
func (c *Controller) supportedRate() float64 {
	if carried := c.carried.value(); carried > 0 {
		return 2 * carried
	}
	return c.maxAfter(c.round.arrived(c.delivery.total))
}

// passed estimates how many of the given bytes will arrive, based on the share lost since we
// entered the state.
func (c *Controller) passed(bytes int) int {
	arrived := int(c.delivery.total - c.totalBefore)
	return int(float64(bytes) * float64(arrived) / float64(max(arrived+c.start.lost, 1)))
}

// halveAll applies the brake. It halves the rate whatever the model says, and lowers it further if
// it still exceeds twice what arrived in the best round trip.
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

// restartOnLongerPath starts again after the path has become longer, at the rate that we had before
// the longer delay looked like a queue.
func (c *Controller) restartOnLongerPath(t instant) {
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
		// The first flight was sent at an unconfirmed rate, and its losses show how much of that
		// rate the path carries.
		c.believeLess()
	} else {
		// Slow down once, as for any loss. That makes room for others on the path. If there are
		// none, a few looks will regain the rest.
		c.start.gaveUp = t
		c.start.answered = t
		c.start.dropHint(c.rates.value())
		c.trim()
		c.rates.set(c.filling, multiplicative*c.Estimate())
	}
	c.start.left = c.Estimate()
	c.enter(Drain, t)
}

// believeLess sets the rate of a start that has measured none to the part of the assumed rate that
// this round's losses leave.
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

// doubt lowers the rate further after a first flight that lost a lot. A policer's token bucket may
// pass the first half of the flight at any rate, so only the second half shows what the path
// carries.
func (c *Controller) doubt() {
	flight, _, _ := c.delivery.flight(0, c.delay.base()/2)
	if late, ok := c.delivery.rateOf(int64(2*c.cfg.Packet), flight.took/2); ok && late.arrival < c.rates.value() {
		c.rates.set(c.filling, max(late.arrival, c.overTrip(0)))
		c.round.fates = tally{} // the new rate answers these losses
	}
}

// Limited records that there is nothing to send although the path could carry more. The inFlight
// bytes will therefore show too low a rate, and must not lower the estimate.
func (c *Controller) Limited(inFlight int) {
	c.pacer.waited = false
	c.markLimited(inFlight)
}

// Bursts sets whether Next allows bursts, which have as many packets as the path passes on at once.
// By default it spaces all packets.
func (c *Controller) Bursts(wanted bool) { c.burst.wanted = wanted }

// Together returns how many packets that were sent together arrived within a millisecond, or 0 if
// unknown.
func (c *Controller) Together() int { return c.burst.passed }

// Waiting reports about how many bytes are waiting to be sent. The owner calls it before it sends
// the first packets of a transfer.
func (c *Controller) Waiting(bytes int) { c.waiting = bytes }

// Starters reports how many controllers, including this one, are starting on paths that may share a
// link. inFlight is how many bytes of bulk this one has in flight.
//
// Each controller begins with its part of the rate that its train promised. Since they can't
// observe each other for a round trip, they would lose most of their packets if each began at the
// whole rate.
//
// While this controller has bytes in flight, the number can only grow, because controllers that end
// their starts keep the rates that they found.
func (c *Controller) Starters(n, inFlight int) {
	c.starters = max(c.starters, starters(n))
	if inFlight == 0 {
		c.starters = starters(n)
	}
}

// partOf returns the part of a hinted rate that each of the controllers starting together may use
// for its first flight.
//
// However many there are, the part is large enough to send the shortest flight within a round trip,
// because what they share is usually just a fast uplink. Without this minimum, each of 64 transfers
// of 256 KiB over links of 5 to 100 Mbit/s would take seven times as long as it takes alone. Even
// if all of them share one link, they lose half as much as the same number of New Renos that begin
// with 32 packets.
func (c *Controller) partOf(hint float64) float64 {
	return min(hint, max(c.starters.part(hint), c.cfg.shortestFlight()/c.delay.base().Seconds()))
}

// Guess reports a round trip of other packets on the path, such as QUIC's or those that opened the
// carrier. The shortest one counts until Acked reports one of the controller's own packets.
func (c *Controller) Guess(rtt time.Duration) {
	if rtt > 0 {
		c.delay.noteGuess(rtt)
	}
}

// lacksData reports whether the sender recently had too little data to fill its window. Such a
// window proves nothing (RFC 7661). If it could grow, surges would raise it to any size, and the
// next transfer would then be sent with it.
func (c *Controller) lacksData() bool { return c.delivery.limited > c.delivery.total }

// markLimited marks the inFlight bytes as limited, meaning that the path might have carried more.
func (c *Controller) markLimited(inFlight int) {
	c.delivery.limited = c.delivery.total + int64(inFlight)
	c.delivery.ranDry = true
}

// State returns the controller's state.
func (c *Controller) State() State { return c.state }

// Estimate returns the estimated rate of the bottleneck, or of our share of it, in bytes per
// second. It returns 0 if the rate is unknown.
func (c *Controller) Estimate() float64 {
	return max(c.start.hint, c.rates.value())
}

// Delivered returns the rate at which packets arrived, in bytes per second, or 0 if it is unknown.
// Unlike Estimate, it ignores the rate that a train promised.
func (c *Controller) Delivered() float64 { return c.rates.value() }

// Queue returns how long the packets acked most recently waited in a queue.
func (c *Controller) Queue() time.Duration { return c.queue }

// Loss returns the smoothed share of lost packets, from 0 to 1.
func (c *Controller) Loss() float64 { return c.loss.value }

// LossOf returns how many packets Loss was measured over, at most 256.
func (c *Controller) LossOf() int { return int(c.loss.count) }

// TrainCounts reports how many packets of a train were lost, and how many arrived. They count for
// Loss, which has little else to go by when the first transfer begins.
func (c *Controller) TrainCounts(lost, arrived int) { c.loss.note(lost, arrived) }

// TrainLate reports that a packet of a train has arrived although TrainCounts counted it as lost.
func (c *Controller) TrainLate() { c.loss.value = max(0, c.loss.value-1/max(c.loss.count, 1)) }

// RTT returns the latest, the smoothed and the minimum round trip, each of which is 0 if unknown.
func (c *Controller) RTT() (latest, smoothed, least time.Duration) {
	return c.delay.latest, c.delay.smoothed, c.delay.rtt.min
}

// PTO returns the probe timeout (RFC 9002, section 6.2.1).
func (c *Controller) PTO() time.Duration { return c.delay.pto(c.cfg.AckDelay) }

// tick advances the controller's clock to now and returns it as an instant. The controller's clock
// never goes back, even if now does.
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
	c.delivery.grain = c.delay.base() / grainsPerTrip
	c.delivery.stand.threshold = c.minStand()
	s, ok := c.sample()
	if !ok {
		return
	}
	rate := s.shown()
	c.limited = s.limited || s.held || s.stood
	if !s.stood {
		c.recent = s.arrival
	}
	c.sparse = s.limited && c.state != Dip && s.sent < c.Estimate()/4
	// A held sample shows too low a rate, but it may be the only one we'll ever get. A start waits
	// flatRounds rounds for a better one, because controllers that begin together would otherwise
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

// minStand returns how late an arrival must be to show that the path stood still, or 0 if no
// arrival can show that.
//
// None can in the first start on a path, because the trains and bursts of others that begin at the
// same time also leave gaps. If those counted, they would hide the queue: sixteen controllers that
// begin within 100 ms would lose 6 % instead of 3 %.
func (c *Controller) minStand() time.Duration {
	if c.state == Start && c.look.number == c.looks.before {
		return 0
	}
	return c.delay.still()
}

// sample returns the rate that the latest arrivals show. It usually needs a round trip's worth of
// them, because a rate over less than that is mostly noise.
func (c *Controller) sample() (slope, bool) {
	if c.round.number < 2 && c.state == Start && c.starters <= 1 {
		// In the first rounds of a start, a few packets are enough, but no fewer than minWindow.
		// With only two packets of play, jitter could produce any rate, which would replace the
		// train's. A few packets won't do if others are starting too, since the queue then passes
		// our packets on in clumps, which show the bottleneck's rate rather than our share.
		if s, ok := c.delivery.rateOf(int64(minWindow*c.cfg.Packet), min(c.delay.base()/8, minStanding)); ok {
			return s, true
		}
	}
	if c.look.shown.bytes > 0 {
		s := c.look.shown
		c.look.shown = slope{}
		return s, true
	}
	return c.delivery.rate(c.delay.reach())
}
