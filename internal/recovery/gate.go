package recovery

import "time"

const (
	// slack is how long a queue bulk may cause on the path, and queuePackets is how many packets it
	// may have. quic-go's receiver holds 128 datagrams and drops what doesn't fit.
	slack        = 20 * time.Millisecond
	queuePackets = 96

	// pathSlack is how many packets may be in flight beyond the path's window. Those wait inside
	// the carrier, so there's one to send as soon as an ack makes room, and quic-go lets its
	// window grow only while the bytes in flight are within 3 packets of it.
	//
	// Play (the game's own traffic) has to wait behind them. With a slack of 4 at 10 Mbit/s, 50 ms
	// and 1 % loss, play took 5 ms longer in the median and 10 to 20 ms longer at p99, and bulk
	// was no faster. With 1, bulk took up to 7 % longer if losses kept the window small.
	//
	// There is none during the start, because packets that wait for the window would look like a
	// queue.
	pathSlack = 2

	minPackets   = 4 // packets that may always be in flight
	slackPackets = 2 // packets that may always queue; less would mean none at all on a slow path

	// bulkPause is how long bulk must pause before the start begins again. It must also be longer
	// than four round trips.
	bulkPause     = time.Second
	unknownWindow = 1 << 30
)

// A Gate is a congestion window for bulk (transfers) that is meant to keep bulk from maintaining a
// standing queue, behind which play would have to wait.
//
// The window is what the path has room for: the delivery rate times the minimum RTT, with
// something added for jitter and slack for a short queue. On a slow path the slack is
// slackPackets. The window is never larger than the path's own.
//
// During the start it is twice the rate times the minimum RTT, plus queuePackets, until the rate
// stops growing or a queue builds up.
//
// The gate drains when the minimum RTT has expired, when a queue stands, or when its own window
// keeps falling. If the queue was ours, it disappears. The minimum RTT that we then see becomes
// the new minimum, and what round trips exceed it by on average is jitter. If it's much longer
// than before, the path has changed and we start again, but gently, because the queue may belong
// to others.
type Gate struct {
	RTT
	PathWindow int // how many bytes the path allows in flight; 0 if unknown

	rate     rate
	start    start
	jitter   jitter
	watch    watch
	drain    drain
	lastBulk time.Duration // when bulk was last sent; 0 if never
}

// Sent returns the mark of a packet that is being sent. inFlight is how many bytes are in flight
// without it.
func (g *Gate) Sent(now time.Duration, inFlight int) Mark {
	m := g.rate.mark(now, inFlight)
	m.drained = g.drain.active() && inFlight <= g.Window(drainPacket)
	return m
}

// BulkSent is called when bulk is sent. After a pause the start begins again, since we don't want
// to be limited by a rate that was measured long ago, or with only a few small messages.
func (g *Gate) BulkSent(now time.Duration) {
	pause := max(bulkPause, 4*g.Current())
	if g.lastBulk == 0 || now-g.lastBulk > pause {
		g.begin(start{})
		g.jitter.maxDeviation = deviation(g.Variance)
		if g.sampledAt-g.lastBulk > pause/2 {
			g.learnFromPause(now)
		}
	}
	g.lastBulk = now
}

// learnFromPause takes the minimum and the jitter from round trips during a pause, when there
// was no queue of bulk. No drain is needed for the next 10 s, then. If bulk began with a drain,
// it would be limited to the little that was sent before.
func (g *Gate) learnFromPause(now time.Duration) {
	g.jitter.excess = max(0, g.Smoothed-g.Min)
	g.drain = drain{}
	g.minAt = now
}

// begin begins another start.
func (g *Gate) begin(s start) {
	g.start = s
	g.watch.peak = 0
}

// Acked counts a packet that has arrived, even if it had been declared lost.
func (g *Gate) Acked(now time.Duration, m *Mark, size int) {
	g.rate.count(m, size)
	g.rate.deliveredAt = now
}

// Lost counts a lost packet as delivered too, unless a queue stands, because the path did carry it.
// If we didn't, random loss would lower the window again and again, although it says nothing about
// how much the path can take.
func (g *Gate) Lost(m *Mark, size int) {
	if g.Known() && !g.queueStands() {
		g.rate.count(m, size)
	}
}

// Limited is called when the owner has nothing more to send although only inFlight bytes are in
// flight.
func (g *Gate) Limited(inFlight int) {
	g.rate.limitedTill = g.rate.delivered + int64(max(inFlight, 1))
}

// allowance returns by how much round trips may exceed the minimum without showing a queue.
func (g *Gate) allowance() time.Duration { return g.jitter.allowance(g.Variance) }

// queueStands reports whether the latest round trip shows more of a queue than bulk may build.
func (g *Gate) queueStands() bool { return g.showsQueue(g.Adjusted) }

// showsQueue reports whether a round trip shows more of a queue than bulk may build.
func (g *Gate) showsQueue(rtt time.Duration) bool { return rtt > g.Min+slack+g.Min/4+g.allowance() }

// Measure takes a sample of the rate from the newest packet that an ack covers, which was sent
// at the time sent. The owner must call Acked and Update before.
//
// If the application had nothing more to send, the sample counts less, unless it met a queue that
// may be the application's own, because then it was the path that limited it. Rounds that were
// limited by the application don't age rates.
//
// A trickle can't end the start. A peer that receives a transfer sends its reports as bulk, and
// those meet the queue of the bulk that it receives.
func (g *Gate) Measure(now, sent time.Duration, m *Mark) {
	limited := m.limited && (g.rate.trickles(m, g.Min) || !g.queueStands())
	if g.rate.endRound(m) && !limited {
		g.start.endRound(g.rate.value)
		g.rate.age()
	}
	g.rate.sample(now, sent, m, g.Min/2, limited)
	g.watch.addRate(g.rate.value)
	if !m.limited || !g.rate.trickles(m, g.Min) {
		g.start.addTrip(g.Adjusted, g.Min+startQueue(g.Min)+g.allowance())
		g.start.over = g.start.over || g.queueStands()
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

// wantsDrain reports whether it is time for a drain.
func (g *Gate) wantsDrain(now time.Duration) bool {
	return g.Known() && (now-g.minAt > minRTTLifetime || g.watch.stoodLong() || g.windowFalls())
}

// windowFalls reports whether the rate keeps falling while it's our own window that limits it. This
// happens when round trips are longer than we assume, because of jitter, because packets arrive
// in clumps, or because others fill a queue. Each window then carries less than the one before.
//
// We may not see it as a queue, since we allow for slack and a quarter of the minimum.
func (g *Gate) windowFalls() bool {
	own := g.rate.value * (g.Min + g.allowance() + slack).Seconds()
	return g.start.over && g.watch.hasFallen(g.rate.value) && (g.PathWindow == 0 || own < float64(g.PathWindow))
}

// beginDrain begins a drain, which takes one and a half round trips.
func (g *Gate) beginDrain(now time.Duration) {
	g.drain = drain{end: now + g.Smoothed*3/2, windowFell: g.windowFalls(), minTrip: g.Adjusted}
	if g.showsQueue(g.Recent) {
		// The path was the limit, and may have become slower since. With the older, higher rates
		// the queue wouldn't drain.
		g.rate.renew()
	}
}

// endDrain ends the drain when its time is over, and learns the minimum and the jitter from it.
func (g *Gate) endDrain(now time.Duration) {
	d := g.drain
	if now < d.end {
		return
	}
	g.drain = drain{}
	g.watch.renew(g.rate.value)
	// Don't mistake for a longer path what may be a queue of our own, made of the packets that may
	// always be in flight.
	longer := g.showsQueue(d.minTrip - g.undrained())
	if longer || d.windowFell || now-g.minAt > minRTTLifetime {
		if g.start.over && d.minTrip > 2*g.Min {
			// It is another path.
			g.begin(start{gentle: true})
		}
		g.Min = d.minTrip
		g.minAt = now
	}
	if d.packets > 0 {
		g.jitter.excess = max(0, d.trips/time.Duration(d.packets)-g.Min-g.undrained())
	}
}

// undrained returns how long minPackets take, which stay in flight even during a drain. It is an
// hour while the rate is unknown.
func (g *Gate) undrained() time.Duration {
	seconds := min(minPackets*drainPacket/g.rate.value, 3600)
	return time.Duration(seconds * float64(time.Second))
}

// Window returns how many bytes of bulk may be in flight. datagram is the size of a full packet.
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
		// We know nothing yet, so it's up to the path.
	case g.drain.active():
		bound = g.rate.value * g.Min.Seconds() * 3 / 4
	case !g.start.over && g.start.gentle:
		bound = 2 * held
	case !g.start.over:
		bound = 2*held + queue
	default:
		bound = held + max(min(g.rate.value*slack.Seconds(), queue), float64(slackPackets*datagram))
	}
	return max(minPackets*datagram, int(min(bound, float64(path))))
}

// Rate returns the delivery rate in bytes per second, or 0 if it was never measured.
func (g *Gate) Rate() float64 { return g.rate.value }

// Estimate returns the rate that we expect, in bytes per second, or 0 if we can't tell. While
// the application sends only a little, its rate says nothing about the path. So during the start
// we go by the path's window if that promises more.
func (g *Gate) Estimate() float64 {
	if g.start.over || g.PathWindow == 0 || !g.Known() {
		return g.rate.value
	}
	return max(g.rate.value, float64(g.PathWindow)/g.Smoothed.Seconds())
}
