package pace

import "time"

// A Controller paces the bulk packets of one path. It has no lock: the owner
// must not call it from several goroutines at once.
type Controller struct {
	cfg    Config
	local  clock     // the sender's clock; instants are its own unless their comment says otherwise
	remote peerClock // the receiver's clock
	now    instant

	// The path, as acks have shown it.
	delay    delay
	delivery delivery
	rates    maximum       // rates of arrival in the last rounds in which the sender tried to fill the path
	carried  maximum       // bytes a second that arrived in each of those rounds, by our own clock
	filling  int64         // number of such rounds; other rounds do not age the estimate
	fastest  float64       // the greatest estimate of this path so far; 0 = none yet
	smallest int           // bytes of the smallest packet that has arrived; 0 = none has
	limited  bool          // the newest sample is of limited packets: see Sample
	sparse   bool          // the newest sample is of packets that were sent at less than a quarter of the estimate
	recent   float64       // rate of arrival in the newest sample, in bytes a second; 0 = unknown
	gap      time.Duration // usual time between two feedbacks while data is in flight; 0 = unknown
	queue    time.Duration // the shortest queue that a packet of the newest batch met

	// Losses: how many packets were lost, and what that means.
	loss       share      // share of all packets
	congestion congestion // tells losses of a full queue from random ones
	brake      brake
	undo       undo
	regain     regain // the rate that a flood took away
	// Bytes of lost packets that may still count as passed; Acked adds to it,
	// countAsPassed takes from it.
	credit float64

	waiting int // bytes of bulk that wait to be sent; set by Waiting
	// How many controllers start, including this one; does not fall while
	// something is in flight; set by Starters.
	starters starters

	batch     batch // collects fates until the next Feedback
	round     round // the present round
	lostRound uint8 // low bits of the number of the round in which the newest lost packet was sent
	flood     flood
	run       run
	number    uint16 // low bits of the number of the newest packet that was sent

	// The state, and what several states use.
	state  State
	since  instant // when the state was entered
	before int64   // delivery.total at that time
	rounds int     // rounds that have ended since then

	start       start
	look        look // the newest look
	looks       looks
	competition competition
	dips        dips
	yielding    yielding
	queueing    queueing
	silence     silence

	pathSince instant // when Reset was last called; 0 = never. Acks and losses of packets sent before do not count
	hurried   bool    // the path before this one was in use for less than leastStay
	history   history // bytes sent and arrived on all paths
	inFlight  int     // bytes in flight at the last Feedback

	pacer pacer
	burst burst
}

// A batch collects the fates of packets between two calls of Feedback.
type batch struct {
	tally
	newest   Sample
	rtt      time.Duration // the least round trip; 0 = no packet was acked
	ackDelay time.Duration // how long the receiver held back the acks; set by AckDelay
	way      least         // how far the one-way delays exceed the least one of the path
	queue    least         // the same, for packets that no stand of the path has held up
	full     bool          // a packet was lost because a queue was full; set by judgeLosses
	lately   bool          // a packet was lost that was sent after the last cut of competition
}

// New returns a Controller that knows nothing about its path.
func New(c Config) *Controller { return &Controller{cfg: c.withDefaults()} }

// leastStay is how long a path must have been in use for the next one to begin with a full first
// window. Without it, a peer whose address changed with each round trip was sent four times the
// rate of a slow link, permanently: each path was abandoned before its losses could show.
const leastStay = time.Second

// Reset forgets what is known about the path. The owner calls it when the path
// has changed. It may still report packets that were sent before.
func (c *Controller) Reset(now time.Time) {
	t := c.tick(now)
	fresh := Controller{cfg: c.cfg, local: c.local, remote: c.remote, now: c.now}
	fresh.remote.forgetPath()
	fresh.delivery.total = c.delivery.total
	fresh.round.end = c.delivery.total
	fresh.look.number = c.look.number
	fresh.hurried = c.pathSince > 0 && t-c.pathSince < leastStay
	fresh.history = c.history
	fresh.pathSince, fresh.silence.lightSince, fresh.silence.lastAck = t, t, t
	*c = fresh
}

// unknown returns how many packets may be sent in the first round trip of an unknown path.
func (c *Controller) unknown() float64 {
	if c.hurried {
		return minWindow
	}
	return c.starters.unknown()
}

// A history counts the bytes that were sent since New, over all paths, and how
// many of them have arrived.
type history struct{ left, arrived int64 }

// wasteful reports whether more bytes did not arrive than random loss explains.
// Bytes in flight count as not arrived.
func (h history) wasteful() bool {
	return float64(h.left-h.arrived) > max(blind*float64(h.left), unknownWindow*defaultPacket)
}

// Rest frees the records of single packets. The owner calls it after a silence
// in which nothing was in flight. What was learned from the records stays.
func (c *Controller) Rest() {
	c.delivery.curve, c.delivery.begin = latest[point]{}, 0
	c.congestion.neighbours.places = latest[neighbour]{}
}

// Sent records that a packet of size bytes on the wire was sent while inFlight bytes of others were
// in flight. It returns the Sample that the owner must keep until it reports the packet's fate.
func (c *Controller) Sent(now time.Time, size, inFlight int) Sample {
	t := c.tick(now)
	if inFlight == 0 {
		c.resume(t)
	}
	paused := t-c.silence.lastSent > c.delay.base()
	c.silence.lastSent = t
	c.burst.leave(t, size)
	c.history.left += int64(size)
	if c.pacer.sent(t, size, c.Rate()) {
		c.markLimited(inFlight)
	}
	if !c.start.tried && c.start.try(t, c.delivery.ranDry, inFlight+size, trial(c.Window(), c.cfg.Packet, c.waiting > 0)) {
		c.round.fates = tally{}
	}
	s := c.delivery.leave(t, inFlight, paused)
	s.round = uint8(c.round.number)
	c.number++
	s.number = c.number
	if c.state == Up {
		s.look = c.look.number
	}
	s.limited = s.limited || c.state == Dip || c.gain() < 1
	return s
}

// Played records that play was sent. While play is sent looks are smaller,
// because play waits in the queue that a look makes.
func (c *Controller) Played(now time.Time) { c.looks.play.last = c.tick(now) }

// AckDelay sets how long the receiver has held back the acks that follow, up to Feedback. This time
// is subtracted from their round trips, but not below the least round trip seen so far (RFC 9002,
// section 5.3). It is not subtracted from the first round trip, because the receiver may lie.
func (c *Controller) AckDelay(d time.Duration) { c.batch.ackDelay = d }

// Acked reports that a packet of size bytes has arrived. arrival is when, by
// the receiver's clock; zero = unknown.
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
		return
	}
	a, floor := c.remote.arrival(t, s.sent, arrival)
	if floor.known {
		c.delay.measureAnew(t, floor)
		c.delivery.measureAnew()
	}
	c.delivery.arrive(s, size, a)
	c.burst.arrive(s.sent, a)
	c.delay.arrive(t, a-s.sent)
	c.noteSize(size)
	queue := a - s.sent - c.delay.way.least - c.ownTime(size)
	b.way.note(queue)
	if c.delivery.stand.heldUp(s.sent + c.delay.way.least + c.queue + c.delay.jitter()) {
		queue = min(queue, a-c.delivery.stand.ended)
	} else {
		b.queue.note(queue)
	}
	c.congestion.acked(t, s.sent, queue, c.delay.jitter(), c.sight())
}

// RoundTrip reports a round trip; the least one of a batch counts. Acked calls it. The owner
// calls it for the probe whose ack ends an outage, because probes are not reported by Sent.
// It must not call it for every probe: then many controllers share a path less fairly.
func (c *Controller) RoundTrip(rtt time.Duration) {
	b := &c.batch
	if c.delay.rtt.known && rtt-b.ackDelay >= c.delay.rtt.least {
		rtt -= b.ackDelay
	}
	if b.rtt == 0 || rtt < b.rtt {
		b.rtt = max(rtt, 1)
	}
}

// noteSize records the smallest size of a packet and the fastest rate, for ownTime.
func (c *Controller) noteSize(size int) {
	if c.smallest == 0 || size < c.smallest {
		c.smallest = size
	}
	c.fastest = max(c.fastest, c.Estimate())
}

// sight returns what rates and round trips show about the bottleneck now.
func (c *Controller) sight() sight {
	s := sight{step: c.delivery.grain, long: c.delay.long(max(c.delay.latest, c.batch.rtt)), stands: c.delay.stands()}
	if c.fastest > 0 {
		s.grain = over(c.cfg.Packet, c.fastest)
	}
	return s
}

// ownTime returns how much longer a packet of size bytes takes at the bottleneck
// than the smallest one. The least delay may be that of a small packet of play,
// and compared with it each full packet would seem to have met a queue.
//
// ownTime uses the greatest rate that was ever believed of the path. The present
// rate may be a small part of that: when ownTime used it, sixteen controllers over
// a queue of an eighth of the product did not recognize that queue, and lost 12 %.
func (c *Controller) ownTime(size int) time.Duration {
	if c.fastest == 0 {
		return 0
	}
	return over(size-c.smallest, c.fastest)
}

// Lost reports that a packet of size bytes counts as lost. If the packet
// arrives later, the owner calls Spurious and Acked for it.
func (c *Controller) Lost(now time.Time, s Sample, size int) {
	c.tick(now)
	if s.sent < c.silence.lightSince {
		return
	}
	c.undo.noteLost(s)
	if s.sent < c.start.answered {
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
	c.batch.lately = c.batch.lately || s.sent >= c.competition.cut
	if s.look != 0 && s.look == c.look.number {
		c.look.outcome.addLost(consecutive)
	}
}

// Feedback ends a batch of calls of Acked and Lost, and decides what to do
// next. inFlight is how many bytes are still in flight.
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

// judgeLosses sets b.full if the batch has losses of a full queue. If the sender has little to
// send, a full queue is not its own: its losses are learned from, but do not lower the rate. In
// Start, losses show the depth of the queue only if there are more than random loss explains.
func (c *Controller) judgeLosses(t instant, b *batch) {
	c.round.fates.add(b.tally)
	c.loss.note(b.lost, b.acked)
	learn := c.state != Start && c.round.fates.share() < blind
	if b.full = c.congestion.verdict(t, c.sight(), c.state == Compete, learn) && !c.sparse; b.full && (c.state != Start || c.round.fates.events().above(maxRandomLoss)) {
		c.delay.noteDepth(t, c.congestion.deepest.queue)
	}
	c.delay.forget(t)
}

// endRound ends a round. It halves the rate if the brake demands it, and gives
// the round's figures to everything that counts in rounds.
func (c *Controller) endRound(t instant) {
	if halve, most := c.brake.roundOver(c.round.fates, c.round.arrived(c.delivery.total)); halve {
		c.halveAll(t, most)
	}
	c.flood.roundOver(&c.round)
	c.yielding.roundOver(c.round.number)
	c.delay.roundOver(c.round.leastTrip.value)
	c.delay.back = c.round.leastBack.value
	c.carried.add(c.filling, float64(c.round.arrived(c.delivery.total))/max(t-c.round.began, c.delay.base()).Seconds())
	if !c.limited && c.round.showsPath(&c.delay) {
		c.filling++
	}
	c.delay.swings.roundOver(&c.round, &c.delay)
	c.delay.calmWay.roundOver(t, c.round.fates, c.start.even, c.state == Compete)
	c.delay.calmTrip.roundOver(t, c.round.fates, c.start.even, c.state == Compete)
	c.regainRate(t)
	c.round.next(t, c.delivery.total, c.queue)
}

// regainRate adds a round to regain, and begins a trial if it is time for one.
// It forgets the rate that a flood took away if a queue is seen, or if a Yield
// has shown that the losses are our own: then there is nothing to regain.
func (c *Controller) regainRate(t instant) {
	if c.lacksData() {
		return
	}
	g, sharing := &c.regain, c.competition.sharing
	rate := min(c.Estimate(), c.carried.value())
	g.roundOver(t, c.round.fates, c.usual(), rate, c.state == Cruise)
	switch {
	case g.rate > 0 && c.round.mostQueue > c.delay.target(), sharing.on && !sharing.byFlood:
		*g = regain{}
	case c.state != Cruise && c.state != Drain && c.state != Compete:
	case g.wants(rate):
		g.trial, g.clean = true, 0
		c.begin(t, g.rate)
	}
}

// proven returns the estimate. If that is only a hint, it returns at most the
// rate that the arrivals of this round support.
func (c *Controller) proven() float64 {
	if c.rates.value() > 0 {
		return c.Estimate()
	}
	return min(c.Estimate(), c.mostAfter(c.round.arrived(c.delivery.total)))
}

// borneOut returns the greatest rate that the arrivals of the last rounds support, by our
// own clock: twice what arrived in a round trip, or as much as a first flight may prove.
func (c *Controller) borneOut() float64 {
	if most := c.carried.value(); most > 0 {
		return 2 * most
	}
	return c.mostAfter(c.round.arrived(c.delivery.total))
}

// passed returns how many of these bytes will arrive, by the share that was
// lost since the state was entered.
func (c *Controller) passed(bytes int) int {
	arrived := int(c.delivery.total - c.before)
	return int(float64(bytes) * float64(arrived) / float64(max(arrived+c.start.lost, 1)))
}

// halveAll answers the brake. It halves the rate, whatever is believed of the
// path, and limits it to twice the most that arrived in a round trip.
func (c *Controller) halveAll(t instant, most int) {
	c.remember(t, brakeRounds)
	c.rates.set(c.filling, min(c.supposed()/2, 2*c.overTrip(most)))
	c.start.hint, c.queueing.rateBefore = 0, min(c.queueing.rateBefore, c.rates.value())
	c.congestion.forget()
	if c.state == Compete {
		c.competition.window = min(c.competition.window, c.Estimate()*c.delay.smoothed.Seconds())
		c.cutWindow(t)
	} else {
		c.enter(Drain, t)
	}
}

// goLonger starts again on a path that has become longer. It forgets the least
// delays, and starts at the rate from before the queue.
func (c *Controller) goLonger(t instant) {
	c.delay.forgetLeast(t, c.round.leastQueue)
	c.remote.forgetPath()
	c.queueing.rounds, c.queueing.unmoved = 0, unmoved{}
	c.begin(t, c.queueing.rateBefore)
}

// endByLoss ends a start that meets losses. If the start has measured a rate, endByLoss
// reduces that once, as for any loss: then others on the path have room again, and a
// controller that is alone finds the rest by a few looks. Otherwise the first flight was sent
// at a rate that was only believed, and its losses show which part of that rate is left.
func (c *Controller) endByLoss(t instant) {
	c.remember(t, 1)
	if c.queue <= c.delay.startFull() {
		c.start.dropped = t
	}
	if c.rates.value() == 0 {
		c.believeLess()
	} else {
		c.start.gaveUp, c.start.answered = t, t
		c.dropHint()
		c.trim()
		c.rates.set(c.filling, multiplicative*c.Estimate())
	}
	c.start.left = c.Estimate()
	c.enter(Drain, t)
}

// believeLess sets the rate of a start that has measured none: to the part of
// the supposed rate that the losses of this round leave.
func (c *Controller) believeLess() {
	rate := min(c.supposed()*max(1-c.round.fates.share(), leastHint), c.mostAfter(c.round.arrived(c.delivery.total)))
	c.rates.set(c.filling, rate)
	c.start.hint, c.start.doubtful = 0, true
	c.doubt()
}

// doubt answers a start that has lost much of its first flight. It lowers the rate
// to that at which the later half of the flight arrived, because a token bucket lets
// the earlier half pass. That answers the losses so far, so they no longer count.
func (c *Controller) doubt() {
	flight, _, _ := c.delivery.flight(0, c.delay.base()/2)
	if late, ok := c.delivery.rateOf(int64(2*c.cfg.Packet), flight.took/2); ok && late.arrival < c.rates.value() {
		c.rates.set(c.filling, max(late.arrival, c.overTrip(0)))
		c.round.fates = tally{}
	}
}

// Limited records that there is nothing to send although the path could carry more.
// The inFlight bytes will show too low a rate, which then does not lower the estimate.
func (c *Controller) Limited(inFlight int) {
	c.pacer.waited = false
	c.markLimited(inFlight)
}

// Bursts sets whether the owner wants to send packets in bursts of as many as
// the path passes on at once. If it does not, the pacer spaces all packets.
func (c *Controller) Bursts(wanted bool) { c.burst.wanted = wanted }

// Together returns how many packets that were sent together have arrived within
// a millisecond; 0 = unknown.
func (c *Controller) Together() int { return c.burst.passed }

// Waiting sets about how many bytes wait to be sent. The owner calls it before
// it sends the first packets of a transfer.
func (c *Controller) Waiting(bytes int) { c.waiting = bytes }

// Starters sets how many controllers whose paths may share a link start now, including
// this one, and how many bytes of bulk this one has in flight. Each begins with its
// part of the rate that its train has promised. If all began at the whole rate, most
// packets would be lost, and a controller sees nothing of the others for a round trip.
//
// While this controller has something in flight the number only grows, because
// a controller whose start has ended keeps the rate that it found.
func (c *Controller) Starters(n, inFlight int) {
	if c.starters = max(c.starters, starters(n)); inFlight == 0 {
		c.starters = starters(n)
	}
}

// partOf returns the part of a hint at which each of those that start together sends its first
// flight. However many they are, the shortest flight is sent within a round trip, because most
// often they share no more than a fast uplink: when it was not, each of 64 transfers over
// links of 5 to 100 Mbit/s took seven times as long for 256 KiB as alone. If they do share a
// link, they lose half of what as many New Renos lose, which begin with 32 packets.
func (c *Controller) partOf(hint float64) float64 {
	return min(hint, max(c.starters.part(hint), c.cfg.shortestFlight()/c.delay.base().Seconds()))
}

// Guess reports a round trip of other packets: those of QUIC, or those that open the
// carrier. The least one counts, until Acked reports the first packet of our own.
func (c *Controller) Guess(rtt time.Duration) {
	if d := &c.delay; !d.rtt.known && rtt > 0 && (d.guess == 0 || rtt < d.guess) {
		d.smoothed, d.varied, d.guess = rtt, rtt/2, rtt
	}
}

// lacksData reports whether the sender has lately had too little to send to fill its
// window. A window that is not filled shows nothing (RFC 7661). Otherwise one surge
// after another would raise it to any size, and the next bulk would be sent at that.
func (c *Controller) lacksData() bool { return c.delivery.limited > c.delivery.total }

// markLimited marks the inFlight bytes as limited: the path might have carried more.
func (c *Controller) markLimited(inFlight int) {
	c.delivery.limited = c.delivery.total + int64(inFlight)
	c.delivery.ranDry = true
}

// State returns what the controller is doing.
func (c *Controller) State() State { return c.state }

// Estimate returns the estimated rate of the bottleneck in bytes a second, or
// of our share of it; 0 = unknown.
func (c *Controller) Estimate() float64 {
	return max(c.start.hint, c.rates.value())
}

// Delivered returns the rate in bytes a second at which packets have arrived; 0
// = unknown. Unlike Estimate it does not include what a train has promised.
func (c *Controller) Delivered() float64 { return c.rates.value() }

// Queue returns how long the packets acked last have waited in a queue.
func (c *Controller) Queue() time.Duration { return c.queue }

// Loss returns the smoothed share of packets that were lost, 0 to 1.
func (c *Controller) Loss() float64 { return c.loss.value }

// RTT returns the latest, the smoothed and the least round trip; 0 = unknown.
func (c *Controller) RTT() (latest, smoothed, least time.Duration) {
	return c.delay.latest, c.delay.smoothed, c.delay.rtt.least
}

// PTO returns the probe timeout (RFC 9002, section 6.2.1).
func (c *Controller) PTO() time.Duration { return c.delay.pto(c.cfg.AckDelay) }

// tick returns now as an instant. If now is before the latest time, tick returns the latest time.
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
		c.delay.calmWay.note(b.way.value + c.delay.way.least)
		c.round.leastBack.note(b.rtt - c.delay.base() - max(b.way.value, 0))
	}
	if b.queue.known {
		c.round.noteWait(b.queue.value)
		c.queue = max(b.queue.value-c.delay.jitter(), 0)
		c.round.note(c.queue)
	}
	c.delivery.grain, c.delivery.stand.least = c.delay.base()/64, c.leastStand()
	s, ok := c.sample(b.newest)
	if !ok {
		return
	}
	rate := s.shown()
	if c.limited = s.limited || s.held || s.stood; !s.stood {
		c.recent = s.arrival
	}
	c.sparse = s.limited && c.state != Dip && s.sent < c.Estimate()/4
	// A held sample shows too low a rate, but may be all that is ever known. A start waits for
	// some rounds before it uses one: otherwise sixteen that began together shared less fairly.
	unknown := c.Estimate() == 0 && (c.state != Start || c.rounds >= flatRounds) && !s.limited && !s.stood
	if b.newest.sent >= c.start.gaveUp && (!c.limited || unknown || rate > c.supposed()) {
		c.rates.add(c.filling, rate)
	}
	if known := c.rates.value(); known > 0 {
		c.delay.noteGrain(over(c.cfg.Packet, known))
		if c.state != Start {
			c.start.hint = 0
		}
	}
}

// leastStand returns how late an arrival must be to show a stand; 0 = no arrival
// does. In a path's first start, gaps may also be due to the trains and bursts
// of others that begin. When these counted as stands, they hid the queue, and
// sixteen controllers that began within 100 ms lost 6 % instead of 3 %.
func (c *Controller) leastStand() time.Duration {
	if c.state == Start && c.look.number == 0 {
		return 0
	}
	return c.delay.still()
}

// sample returns the rate that the latest arrivals show. Over less than a round trip a rate is
// mostly noise, with two exceptions. A swift look is shorter. And in the first rounds of a
// start a few packets must do: at least minWindow, because with two packets of play jitter
// makes any rate, which would replace that of the train. If others start as well, a few packets
// show the bottleneck's rate and not our share, because the queue lets them through in clumps.
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
