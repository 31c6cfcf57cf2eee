package pace

import "time"

// A Controller paces the bulk packets of one path.
//
// It has no lock. The owner must not call its methods concurrently.
type Controller struct {
	cfg Config
	// The sender's clock; an instant is by this clock unless its comment says otherwise.
	local  clock
	remote peerClock // the receiver's clock
	now    instant

	// The path, as measured from acks.
	delay    delay
	delivery delivery
	// Arrival rates in the last rounds in which the sender tried to fill the path.
	rates    maximum
	carried  maximum // bytes per second that arrived in each of those rounds, by the local clock
	filling  int64   // number of those rounds; other rounds do not age the estimate
	fastest  float64 // maximum estimate on this path; 0 = none yet
	smallest int     // size of the smallest packet that arrived, in bytes; 0 = none
	limited  bool    // the newest sample consists of limited packets; see Sample
	// The newest sample consists of packets sent at less than a quarter of the estimate.
	sparse bool
	recent float64       // arrival rate in the newest sample, in bytes per second; 0 = unknown
	gap    time.Duration // usual time between calls of Feedback while data is in flight; 0 = unknown
	queue  time.Duration // shortest queue that a packet of the newest batch met

	// Losses, and what they mean.
	loss       share      // lost share of all packets
	congestion congestion // tells the losses of a full queue from random ones
	brake      brake
	undo       undo
	regain     regain // the rate taken away by a flood of losses
	// Bytes of lost packets that may still count as passed. Acked adds to it,
	// countAsPassed subtracts from it.
	credit float64

	waiting int // bytes of bulk waiting to be sent; set by Waiting
	// Number of controllers that start now, including this one; set by Starters. It does
	// not fall while something is in flight.
	starters starters

	batch     batch // fates reported since the last Feedback
	round     round // the present round
	lostRound uint8 // low bits of the number of the round in which the newest lost packet was sent
	flood     flood
	run       run
	number    uint16 // low bits of the number of the newest packet sent

	// The state, and data used in several states.
	state       State
	since       instant // time at which the state was entered
	totalBefore int64   // delivery.total at that time
	rounds      int     // rounds ended since then

	start       start
	look        look // the newest look
	looks       looks
	competition competition
	dips        dips
	yielding    yielding
	queueing    queueing
	silence     silence

	// Time of the last Reset; 0 = never. Acks and losses of packets sent before it do not
	// count.
	pathSince instant
	hurried   bool    // the previous path was in use for less than minPathAge
	history   history // bytes sent and bytes arrived, over all paths
	inFlight  int     // bytes in flight at the last Feedback

	pacer pacer
	burst burst
}

// A batch collects the fates of packets between two calls of Feedback.
type batch struct {
	tally
	newest   Sample
	rtt      time.Duration // minimum round trip; 0 = no packet was acked
	ackDelay time.Duration // time for which the receiver held back the acks; set by AckDelay
	way      minDuration   // minimum excess of a one-way delay over the path's minimum
	queue    minDuration   // the same, over packets that no stand of the path held up
	full     bool          // a full queue dropped a packet; set by judgeLosses
	sinceCut bool          // a packet sent after the last cut of competition was lost
}

// New returns a Controller that knows nothing about its path.
func New(c Config) *Controller { return &Controller{cfg: c.withDefaults()} }

// minPathAge is how long a path must have been in use for the next path to begin with a
// full first window. Without this limit, a peer that changed its address every round trip
// was sent four times the rate of a slow link, permanently: each path was abandoned
// before its losses could show.
const minPathAge = time.Second

// Reset forgets everything known about the path. The owner calls it when the path
// changes.
//
// The owner may still report packets that were sent before Reset.
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

// unknown returns the number of packets that may be sent in the first round trip of an
// unknown path.
func (c *Controller) unknown() float64 {
	if c.hurried {
		return minWindow
	}
	return c.starters.unknown()
}

// A history counts the bytes sent since New and the bytes that arrived, over all paths.
type history struct{ sent, arrived int64 }

// wasteful reports whether more bytes are missing than random loss explains. Bytes in
// flight count as missing.
func (h history) wasteful() bool {
	return float64(h.sent-h.arrived) > max(unexplainedLoss*float64(h.sent), unknownWindow*defaultPacket)
}

// Rest frees the records of single packets, but keeps what was learned from them. The
// owner calls it after a silence in which nothing was in flight.
func (c *Controller) Rest() {
	c.delivery.curve = ring[point]{}
	c.delivery.begin = 0
	c.congestion.neighbours.places = ring[neighbour]{}
}

// Sent records that a packet of size bytes on the wire was sent. inFlight is the number
// of other bytes in flight.
//
// Sent returns a Sample, which the owner must keep until it reports the packet's fate.
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

// Played records that play was sent. Looks are smaller while play is sent, because play
// waits in the queue that a look makes.
func (c *Controller) Played(now time.Time) { c.looks.play.last = c.tick(now) }

// AckDelay sets the time for which the receiver held back the acks that follow, up to the
// next Feedback.
//
// The controller subtracts this time from their round trips, but not below the minimum
// round trip seen so far (RFC 9002, section 5.3). It does not subtract the time from the
// first round trip, because the receiver may lie.
func (c *Controller) AckDelay(d time.Duration) { c.batch.ackDelay = d }

// Acked reports that a packet of size bytes arrived. arrival is the arrival time by the
// receiver's clock, or zero if unknown.
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

// noteArrival records the arrival time of an acked packet, by the receiver's clock.
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

// RoundTrip reports a round trip. The minimum one of a batch counts.
//
// Acked calls RoundTrip. The owner calls it for the probe whose ack ends an outage,
// because probes are not reported to Sent. It must not call it for every probe, because
// then controllers on a common path share it less fairly.
func (c *Controller) RoundTrip(rtt time.Duration) {
	b := &c.batch
	if c.delay.rtt.known && rtt-b.ackDelay >= c.delay.rtt.min {
		rtt -= b.ackDelay
	}
	if b.rtt == 0 || rtt < b.rtt {
		b.rtt = max(rtt, 1)
	}
}

// noteSize updates the smallest packet size and the fastest rate, which ownTime uses.
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

// ownTime returns the extra time that a packet of size bytes takes at the bottleneck,
// compared with the smallest packet. The minimum delay may be that of a small packet of
// play. Compared with it, every full packet would seem to have met a queue.
//
// ownTime uses the maximum rate ever estimated for the path, because the current rate may
// be a small part of the path's. When it used the current rate, sixteen controllers over
// a queue of an eighth of the product did not recognize that queue and lost 12 %.
func (c *Controller) ownTime(size int) time.Duration {
	if c.fastest == 0 {
		return 0
	}
	return sendTime(size-c.smallest, c.fastest)
}

// Lost reports that a packet of size bytes was declared lost. If the packet arrives
// later, the owner calls Spurious and then Acked for it.
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
	c.batch.sinceCut = c.batch.sinceCut || s.sent >= c.competition.cut
	if s.look != 0 && s.look == c.look.number {
		c.look.outcome.addLost(consecutive)
	}
}

// Feedback ends a batch of calls of Acked and Lost, and updates the rate, the window and
// the state. inFlight is the number of bytes still in flight.
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
//
// If the sender has little to send, a full queue is not its own. The controller learns
// from the losses of such a queue, but does not lower the rate for them. In Start, losses
// show the depth of the queue only if there are more than random loss explains.
func (c *Controller) judgeLosses(t instant, b *batch) {
	c.round.fates.add(b.tally)
	c.loss.note(b.lost, b.acked)
	learn := c.state != Start && c.round.fates.share() < unexplainedLoss
	b.full = c.congestion.verdict(t, c.sight(), c.state == Compete, learn) && !c.sparse
	if b.full && (c.state != Start || c.round.fates.events().above(maxRandomLoss)) {
		c.delay.noteDepth(t, c.congestion.deepest.queue)
	}
	c.delay.forget(t)
}

// endRound ends a round. It halves the rate if the brake demands it, and updates
// everything that counts in rounds.
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

// regainRate adds a round to regain, and begins a trial if one is due.
//
// It forgets the rate taken by a flood if a queue is seen, or if a Yield showed that the
// losses are our own. Then there is nothing to regain.
func (c *Controller) regainRate(t instant) {
	if c.lacksData() {
		return
	}
	g := &c.regain
	sharing := c.competition.sharing
	rate := min(c.Estimate(), c.carried.value())
	if c.state == Compete && g.spells { // a spell cuts the window, and the estimate may stay higher
		rate = min(rate, c.competition.rate(c.delay.smoothed))
	}
	g.roundOver(t, c.round.fates, c.usual(), rate, c.state == Cruise)
	switch {
	case g.rate > 0 && c.round.maxQueue > c.delay.target(), sharing.on && !sharing.byFlood:
		*g = regain{}
	case c.state != Cruise && c.state != Drain && c.state != Compete:
	case g.wants(rate):
		g.trial = true
		g.clean = 0
		c.beginStart(t, g.rate)
	}
}

// provenRate returns the estimate. If the estimate is only a hint, it is limited to the
// rate that the arrivals of this round support.
func (c *Controller) provenRate() float64 {
	if c.rates.value() > 0 {
		return c.Estimate()
	}
	return min(c.Estimate(), c.maxAfter(c.round.arrived(c.delivery.total)))
}

// supportedRate returns the maximum rate that the arrivals of the last rounds support, by
// the local clock: twice the bytes that arrived in a round trip, or the rate that a first
// flight may prove.
func (c *Controller) supportedRate() float64 {
	if carried := c.carried.value(); carried > 0 {
		return 2 * carried
	}
	return c.maxAfter(c.round.arrived(c.delivery.total))
}

// passed returns how many of the given bytes will arrive, by the share lost since the
// state was entered.
func (c *Controller) passed(bytes int) int {
	arrived := int(c.delivery.total - c.totalBefore)
	return int(float64(bytes) * float64(arrived) / float64(max(arrived+c.start.lost, 1)))
}

// halveAll responds to the brake. It halves the rate whatever the model says, and limits
// the rate to twice the maximum that arrived in a round trip.
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

// goLonger starts again on a path that has become longer. It forgets the minimum delays,
// and starts at the rate from before the queue.
func (c *Controller) goLonger(t instant) {
	c.delay.pathGrew(t, c.round.minQueue)
	c.remote.forgetPath()
	c.queueing.rounds = 0
	c.queueing.unmoved = unmoved{}
	c.beginStart(t, c.queueing.rateBefore)
}

// endByLoss ends a start that meets losses.
//
// If the start has measured a rate, endByLoss reduces the rate once, as for any loss.
// Then others on the path have room again, and a controller that is alone finds the rest
// with a few looks.
//
// Otherwise the first flight was sent at an unconfirmed rate, and its losses show what
// part of that rate the path carries.
func (c *Controller) endByLoss(t instant) {
	c.saveUndo(t, 1)
	if c.queue <= c.delay.startFull() {
		c.start.dropped = t
	}
	if c.rates.value() == 0 {
		c.believeLess()
	} else {
		c.start.gaveUp = t
		c.start.answered = t
		c.dropHint()
		c.trim()
		c.rates.set(c.filling, multiplicative*c.Estimate())
	}
	c.start.left = c.Estimate()
	c.enter(Drain, t)
}

// believeLess sets the rate of a start that has measured none. The rate is the part of
// the assumed rate that the losses of this round leave.
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

// doubt responds to a start that lost much of its first flight. It lowers the rate to the
// arrival rate of the flight's later half, because a token bucket lets the earlier half
// pass. The new rate accounts for the losses so far, so they no longer count.
func (c *Controller) doubt() {
	flight, _, _ := c.delivery.flight(0, c.delay.base()/2)
	if late, ok := c.delivery.rateOf(int64(2*c.cfg.Packet), flight.took/2); ok && late.arrival < c.rates.value() {
		c.rates.set(c.filling, max(late.arrival, c.overTrip(0)))
		c.round.fates = tally{}
	}
}

// Limited records that there is nothing to send although the path could carry more. The
// inFlight bytes will show too low a rate, so that rate does not lower the estimate.
func (c *Controller) Limited(inFlight int) {
	c.pacer.waited = false
	c.markLimited(inFlight)
}

// Bursts sets whether the owner wants to send packets in bursts. A burst has as many
// packets as the path passes on at once. By default the pacer spaces all packets.
func (c *Controller) Bursts(wanted bool) { c.burst.wanted = wanted }

// Together returns how many packets that were sent together arrived within a millisecond;
// 0 = unknown.
func (c *Controller) Together() int { return c.burst.passed }

// Waiting sets the approximate number of bytes waiting to be sent. The owner calls it
// before it sends the first packets of a transfer.
func (c *Controller) Waiting(bytes int) { c.waiting = bytes }

// Starters sets the number of controllers that start now on paths which may share a link,
// including this one. inFlight is the number of bytes of bulk that this controller has in
// flight.
//
// Each controller begins with its part of the rate that its train promised. If all began
// at the whole rate, most packets would be lost, because a controller sees nothing of the
// others for a round trip.
//
// While this controller has something in flight the number only grows, because a
// controller whose start has ended keeps the rate that it found.
func (c *Controller) Starters(n, inFlight int) {
	c.starters = max(c.starters, starters(n))
	if inFlight == 0 {
		c.starters = starters(n)
	}
}

// partOf returns the part of a hint at which each of the controllers that start together
// sends its first flight.
//
// The shortest flight is always sent within a round trip, however many controllers start,
// because usually they share only a fast uplink. Without this rule, each of 64 transfers
// of 256 KiB over links of 5 to 100 Mbit/s took seven times as long as one alone. If the
// controllers do share a link, they lose half of what the same number of New Renos lose,
// which begin with 32 packets.
func (c *Controller) partOf(hint float64) float64 {
	return min(hint, max(c.starters.part(hint), c.cfg.shortestFlight()/c.delay.base().Seconds()))
}

// Guess reports a round trip of packets that are not the controller's: those of QUIC, or
// those that open the carrier. The minimum counts until Acked reports the controller's
// first packet.
func (c *Controller) Guess(rtt time.Duration) {
	if d := &c.delay; !d.rtt.known && rtt > 0 && (d.guess == 0 || rtt < d.guess) {
		d.smoothed = rtt
		d.varied = rtt / 2
		d.guess = rtt
	}
}

// lacksData reports whether the sender recently had too little data to fill its window. A
// window that is not filled shows nothing (RFC 7661). Without this check, one surge after
// another would raise the window to any size, and the next bulk would be sent at that
// size.
func (c *Controller) lacksData() bool { return c.delivery.limited > c.delivery.total }

// markLimited marks the inFlight bytes as limited: the path might have carried more.
func (c *Controller) markLimited(inFlight int) {
	c.delivery.limited = c.delivery.total + int64(inFlight)
	c.delivery.ranDry = true
}

// State returns the state of the controller.
func (c *Controller) State() State { return c.state }

// Estimate returns the estimated rate of the bottleneck, or of our share of it, in bytes
// per second; 0 = unknown.
func (c *Controller) Estimate() float64 {
	return max(c.start.hint, c.rates.value())
}

// Delivered returns the rate at which packets arrived, in bytes per second; 0 = unknown.
// Unlike Estimate it does not include the rate that a train promised.
func (c *Controller) Delivered() float64 { return c.rates.value() }

// Queue returns the time that the most recently acked packets waited in a queue.
func (c *Controller) Queue() time.Duration { return c.queue }

// Loss returns the smoothed share of lost packets, from 0 to 1.
func (c *Controller) Loss() float64 { return c.loss.value }

// RTT returns the latest, the smoothed and the minimum round trip; 0 = unknown.
func (c *Controller) RTT() (latest, smoothed, least time.Duration) {
	return c.delay.latest, c.delay.smoothed, c.delay.rtt.min
}

// PTO returns the probe timeout (RFC 9002, section 6.2.1).
func (c *Controller) PTO() time.Duration { return c.delay.pto(c.cfg.AckDelay) }

// tick returns now as an instant. It never goes back: if now is before an earlier call's
// time, it returns the earlier call's time.
func (c *Controller) tick(now time.Time) instant {
	c.now = max(c.now, c.local.at(now))
	return c.now
}

// learn updates the round trips, the queue and the rate from the acked packets of a
// batch.
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
	// A held sample shows too low a rate, but may be the only one there ever is. A start
	// waits for some rounds before it uses a held sample. When it did not wait, sixteen
	// controllers that began together shared less fairly.
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

// minStand returns the minimum lateness of an arrival that shows a stand; 0 = no arrival
// does.
//
// In a path's first start, gaps may also be due to the trains and bursts of others that
// begin. When such gaps counted as stands, they hid the queue, and sixteen controllers
// that began within 100 ms lost 6 % instead of 3 %.
func (c *Controller) minStand() time.Duration {
	if c.state == Start && c.look.number == 0 {
		return 0
	}
	return c.delay.still()
}

// sample returns the rate that the latest arrivals show. Over less than a round trip a
// rate is mostly noise, with two exceptions.
//
// A swift look is shorter than a round trip.
//
// In the first rounds of a start a few packets must be enough. There must be at least
// minWindow of them. With only two packets of play, jitter makes up any rate, and that
// rate would replace the train's. If others start too, a few packets show the
// bottleneck's rate and not our share, because the queue lets them through in clumps.
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
