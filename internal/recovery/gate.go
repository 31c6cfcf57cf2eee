package recovery

import (
	"slices"
	"time"
)

const (
	// The queue that bulk (the traffic of transfers) may build on the path is limited to slack and
	// to queuePackets packets. quic-go's receiver holds 128 datagrams and drops what doesn't fit,
	// so a queue of 96 that arrives at once leaves room for play (the game's own traffic).
	slack        = 20 * time.Millisecond
	queuePackets = 96

	// pathSlack is the number of packets that may be in flight beyond the path's window. They
	// wait inside the carrier, so there's one to send as soon as an ack makes room. quic-go lets
	// its window grow only while the bytes in flight are within 3 packets of it.
	//
	// Play has to wait behind these packets. With 4 of them, at 10 Mbit/s, 50 ms and 1 % loss, play
	// takes 5 ms longer in the median and 10 to 20 ms longer at p99, while bulk is no faster.
	// With 1, bulk takes up to 7 % longer if losses keep the window small.
	//
	// There is no such slack during the start, because packets that wait for the window would
	// look like a queue.
	pathSlack = 2

	// minPackets is the number of packets that may always be in flight.
	minPackets = 4
	// slackPackets is the number of packets that may always queue. On a slow path, slack alone
	// would be less than a packet.
	slackPackets = 2

	// After bulk has paused for bulkPause and for bulkPauseTrips round trips, the start begins
	// again. On a long path, bulk may pause for a second just to wait for acks.
	bulkPause      = time.Second
	bulkPauseTrips = 4

	unknownWindow = 1 << 30 // more than any path's
)

// A Gate is a congestion window for bulk that keeps bulk from maintaining a standing queue, behind
// which play would have to wait.
//
// The window is the delivery rate times the minimum RTT, which is what the path holds, plus an
// allowance for jitter and slack for a short queue. It is never larger than the path's own.
//
// During the start, the window is twice the rate times the minimum RTT, plus queuePackets, until
// the rate stops growing or a queue builds up.
//
// The gate drains (leaves part of the path unused for a while) when the minimum RTT has expired,
// when a queue stands, or when its own window keeps falling. If the queue was ours, it disappears.
// The minimum RTT during the drain becomes the new minimum, and the amount by which round trips
// exceed it on average is jitter. If it's much longer than before, the path has changed, so the
// start begins again, but gently, because the queue may belong to others.
//
// Every few round trips without a queue it probes for a higher rate with a larger window.
type Gate struct {
	RTT
	PathWindow int // number of bytes that the path allows in flight; 0 if unknown

	rate     rate
	start    start
	jitter   jitter
	watch    watch
	drain    drain
	probe    probe
	lastBulk time.Duration // when bulk was last sent; 0 if never
}

// Sent returns the mark of a packet that is being sent. inFlight is the number of bytes in flight
// without it.
func (g *Gate) Sent(now time.Duration, inFlight int) Mark {
	m := g.rate.mark(now, inFlight)
	m.drained = g.drain.active() && inFlight <= g.Window(drainPacket)
	return m
}

// BulkSent is called when bulk is sent. After a pause the start begins again, so that bulk isn't
// limited by a rate that was measured long ago, or with only a few small messages.
func (g *Gate) BulkSent(now time.Duration) {
	pause := max(bulkPause, bulkPauseTrips*g.Current())
	if g.lastBulk == 0 || now-g.lastBulk > pause {
		g.begin(start{})
		g.jitter.maxDeviation = deviation(g.Variance)
		if g.sampledAt-g.lastBulk > pause/2 {
			g.learnFromPause(now)
		}
	}
	g.lastBulk = now
}

// learnFromPause takes the minimum and the jitter from round trips during a pause, when bulk had
// no queue. That makes a drain unnecessary for the next minRTTLifetime. A drain right away would
// limit bulk to the low rate of the pause.
func (g *Gate) learnFromPause(now time.Duration) {
	g.jitter.excess = max(0, g.Smoothed-g.Min)
	g.drain = drain{}
	g.minAt = now
}

// OutageEnded is called when an ack ends an outage. least is as for RTT.Held. The path may have
// changed meanwhile, so the start begins again, but gently, and a drain finds out whether round
// trips are longer now.
func (g *Gate) OutageEnded(now, least time.Duration) {
	g.RTT.Held(now, least)
	g.rate.restart(now)
	g.begin(start{gentle: true})
	g.drain = drain{}
	g.minAt = now - minRTTLifetime
}

// begin begins another start, in which the watch looks for a new peak.
func (g *Gate) begin(s start) {
	g.start = s
	g.probe = probe{}
	g.watch.peak = 0
}

// Acked counts a packet that has arrived, even if it was declared lost before.
func (g *Gate) Acked(now time.Duration, m *Mark, size int) {
	g.rate.count(m, size)
	g.rate.deliveredAt = now
}

// Lost counts a lost packet as delivered unless a queue stands. Random loss says nothing about how
// much the path can carry, so it must not lower the window.
func (g *Gate) Lost(m *Mark, size int) {
	if g.Known() && !g.queueStands() {
		g.rate.count(m, size)
	}
}

// Limited is called when the owner has nothing more to send although only inFlight bytes are in
// flight.
func (g *Gate) Limited(inFlight int) { g.rate.limited(inFlight) }

// allowance returns the amount by which round trips may exceed the minimum because of jitter.
func (g *Gate) allowance() time.Duration { return g.jitter.allowance(g.Variance) }

// queueStands reports whether the latest round trip shows more of a queue than bulk may build.
func (g *Gate) queueStands() bool { return g.showsQueue(g.Adjusted) }

// showsQueue reports whether a round trip shows more of a queue than bulk may build.
func (g *Gate) showsQueue(rtt time.Duration) bool { return rtt > g.Min+slack+g.Min/4+g.allowance() }

// Measure takes a sample of the rate from the newest packet that an ack covers, which was sent
// at the time sent. The owner must call Acked and Update first.
//
// If the application had nothing more to send, the sample counts less, unless the packet met a
// queue that may be the application's own, because then the path was the limit. Rounds that were
// limited by the application don't age rates.
//
// A trickle can't end the start, because the queue that it meets isn't its own. A peer that
// receives a transfer sends its reports as bulk, for example, and those meet the queue of the
// bulk that it receives.
//
// A packet that an outage may have held up shows neither a rate nor a queue.
func (g *Gate) Measure(now, sent time.Duration, m *Mark) {
	if g.HeldUp(sent) {
		return
	}
	limited := g.MeasureRate(now, sent, m)
	if !m.limited || !g.rate.trickles(m, g.Min) { // the sample may have changed what a trickle is
		g.start.addTrip(g.Adjusted, g.Min+startQueue(g.Min)+g.allowance())
		g.start.over = g.start.over || g.queueEndsStart()
	}
	if g.watch.batch != g.Rounds {
		g.watch.addBatch(g.Rounds, !limited && g.start.over && g.showsQueue(g.Recent))
	}
	if !g.drain.active() && g.wantsDrain(now) {
		g.beginDrain(now)
	}
	if g.drain.active() {
		g.drain.addTrip(g.Adjusted, m)
		g.endDrain(now)
	}
}

// MeasureRate is Measure without the round trip, which isn't known if the packet may have been
// acked for an earlier copy of it. What has arrived since it was sent shows the rate all the same.
// limited is set if the application may have been the limit.
func (g *Gate) MeasureRate(now, sent time.Duration, m *Mark) (limited bool) {
	if g.HeldUp(sent) {
		return true
	}
	limited = m.limited && (g.rate.trickles(m, g.Min) || !g.queueStands())
	roundEnded := g.rate.endRound(m)
	if roundEnded && !limited {
		g.start.endRound(g.rate.value)
		if g.start.over {
			g.probe.endRound(g.rate.value, g.forbidsProbe())
		}
		g.rate.age()
	}
	g.rate.sample(now, sent, m, g.Min/2, limited)
	g.watch.addRate(g.rate.value)
	return limited
}

// forbidsProbe reports whether a queue stands in which a probe would take room from others. Min may
// include a queue that others kept during a drain, so the shortest round trip ever counts. If round
// trips vary little, half of slack is a queue of our own, so the path is full.
func (g *Gate) forbidsProbe() bool {
	queue := min(slack+g.MinEver/4, slack/2+4*g.Variance)
	return g.drain.active() || g.Recent > g.MinEver+queue
}

// queueEndsStart reports whether a queue stands that ends the start. One round trip isn't enough to
// end a gentle start, because on a lossy path it may be long only because an ack was lost, and the
// rate is then far too low. Since the window is at most twice what the path holds, a gentle start
// can wait for the next ones.
func (g *Gate) queueEndsStart() bool {
	if g.start.gentle {
		return g.start.trips >= startSamples && g.showsQueue(slices.Min(g.start.latest[:]))
	}
	return g.queueStands()
}

// wantsDrain reports whether it is time for a drain.
func (g *Gate) wantsDrain(now time.Duration) bool {
	return g.Known() && (now-g.minAt > minRTTLifetime || g.watch.stoodLong() || g.windowFalls())
}

// windowFalls reports whether the rate keeps falling while our own window limits it. This happens
// when round trips are longer than we assume, because of jitter, because packets arrive in
// clumps, or because others fill a queue. Each window then carries less than the one before.
//
// showsQueue may not notice, since it allows for slack and a quarter of the minimum.
func (g *Gate) windowFalls() bool {
	own := g.rate.value * (g.Min + g.allowance() + slack).Seconds()
	return g.start.over && g.watch.hasFallen(g.rate.value) && (g.PathWindow == 0 || own < float64(g.PathWindow))
}

// beginDrain begins a drain, which takes one and a half round trips. The first packet that is sent
// during the drain is acked after one, so the other half is for samples.
func (g *Gate) beginDrain(now time.Duration) {
	g.drain = drain{end: now + g.Smoothed*3/2, windowFell: g.windowFalls(), minTrip: g.Adjusted}
	if g.showsQueue(g.Recent) {
		// The path was the limit and may have become slower, so don't use older, higher rates, with
		// which the queue wouldn't drain.
		g.rate.renew()
	}
}

// endDrain ends the drain if its time is over, and takes the minimum and the jitter from it.
func (g *Gate) endDrain(now time.Duration) {
	d := g.drain
	if now < d.end {
		return
	}
	g.drain = drain{}
	g.watch.renew(g.rate.value)
	// The packets that may always be in flight may be a queue of our own. Don't mistake it for a
	// longer path.
	longer := g.showsQueue(d.minTrip - g.undrained())
	if longer || d.windowFell || now-g.minAt > minRTTLifetime {
		if g.start.over && d.minTrip > 2*g.Min {
			// This must be another path.
			g.begin(start{gentle: true})
		}
		g.Min = d.minTrip
		g.minAt = now
	}
	if d.packets > 0 {
		g.jitter.excess = max(0, d.trips/time.Duration(d.packets)-g.Min-g.undrained())
	}
}

// undrained returns the time that it takes to send minPackets packets, which stay in flight even
// during a drain. While the rate is unknown, it is an hour, longer than any round trip.
func (g *Gate) undrained() time.Duration {
	seconds := min(minPackets*drainPacket/g.rate.value, time.Hour.Seconds())
	return time.Duration(seconds * float64(time.Second))
}

// Window returns the number of bytes of bulk that may be in flight. datagram is the size of a full
// packet.
func (g *Gate) Window(datagram int) int {
	path := g.PathWindow
	if path == 0 {
		path = unknownWindow
	}
	if g.start.over {
		path += pathSlack * datagram
	}
	bound := float64(path)
	held := g.rate.value * (g.Min + g.allowance()).Seconds()
	queue := float64(queuePackets * datagram)
	switch {
	case g.rate.value == 0:
		// Nothing is known yet, so only the path is the limit.
	case g.drain.active():
		bound = g.rate.value * g.Min.Seconds() * drainShare
	case !g.start.over && g.start.gentle:
		bound = 2 * held
	case !g.start.over:
		bound = 2*held + queue
	default:
		bound = held + max(min(g.rate.value*slack.Seconds(), queue), float64(slackPackets*datagram))
		if g.probe.on {
			bound += min(held*probeShare, queue)
		}
	}
	return max(minPackets*datagram, int(min(bound, float64(path))))
}

// Rate returns the delivery rate in bytes per second, or 0 if it was never measured.
func (g *Gate) Rate() float64 { return g.rate.value }

// Estimate returns the rate that we expect, in bytes per second, or 0 if it's unknown. While the
// application sends little, its rate says nothing about the path, so during the start Estimate
// also considers the path's window.
func (g *Gate) Estimate() float64 {
	if g.start.over || g.PathWindow == 0 || !g.Known() {
		return g.rate.value
	}
	return max(g.rate.value, float64(g.PathWindow)/g.Smoothed.Seconds())
}
