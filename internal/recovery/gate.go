package recovery

import (
	"slices"
	"time"
)

const (
	slack = 20 * time.Millisecond // maximum duration of a queue that bulk may cause on the path
	// Maximum number of packets in that queue. quic-go's receiver holds 128 datagrams and
	// drops further ones.
	queuePackets = 96
	// pathSlack is the number of packets that may be in flight beyond the path's window.
	// One then waits inside the carrier when an ack makes room, and quic-go's window grows
	// while the bytes in flight are within 3 packets of it.
	//
	// Play is sent after the packets waiting there. With a slack of 4 at 10 Mbit/s, 50 ms
	// and 1 % loss, play took 5 ms longer in the median and 10 to 20 ms longer at p99, and
	// bulk was no faster. With 1, bulk took up to 7 % longer if losses kept the window
	// small.
	//
	// During the start there is no slack, because packets waiting for the window would look
	// like a queue.
	pathSlack  = 2
	minPackets = 4 // number of packets that may always be in flight
	// Number of packets that may always queue. Packets are whole, so on a slow path a lower
	// number would mean none.
	slackPackets = 2
	// The start ends after this many rounds in which the rate did not grow by a quarter.
	flatRounds    = 3
	startSamples  = 4                    // or after this many consecutive round trips that show a queue
	minStartQueue = 4 * time.Millisecond // MIN_RTT_THRESH and MAX_RTT_THRESH of HyStart++ (RFC 9406, section 4.3)
	maxStartQueue = 16 * time.Millisecond
	// Bytes arriving in a round trip are a trickle if they are less than this part of what
	// the path holds. Fewer than minTrickle bytes always are, because that is less than
	// minPackets, and a queue so small may always stand.
	trickle       = 1. / 16
	minTrickle    = 2 << 10
	bulkPause     = time.Second // the start begins again if bulk paused for longer than this and four round trips
	unknownWindow = 1 << 30
	// standBatches is the number of consecutive batches of round trips (see RTT.Recent) in
	// which a queue must stand before a drain finds out whose queue it is.
	standBatches = 4
	drainPacket  = 1200 // approximate size of a packet of bulk
	// fallen is the part of its peak below which a rate has fallen rather than varied.
	fallen = 7. / 8

	// calmDeviation is the deviation of round trips caused by our own queues and delayed
	// acks. The deviation beyond it, times jitterDeviations, exceeds the distance from the
	// minimum to the mean round trip. With even jitter in both directions, that distance is
	// three times the deviation.
	calmDeviation    = 8 * time.Millisecond
	jitterDeviations = 4
)

// A Gate limits how much bulk may be in flight, so that bulk keeps no standing queue in
// front of play.
//
// The limit is the path's window, and at most the delivery rate times (minimum RTT + jitter
// + slack). On a slow path, slackPackets replace the slack.
//
// During the start, the limit is twice the rate times the minimum RTT, plus queuePackets.
// The start ends when the rate stops growing or a queue builds up.
//
// A drain begins if the minimum RTT has expired, a queue stands, or the gate's limit keeps
// falling. Bulk then drains any queue that it has built. The minimum RTT of the drain
// becomes the new minimum, and the average excess over it is jitter. If the minimum is much
// longer than before, the path has changed, and the start begins again. That start is
// gentle, because the queue may belong to others.
type Gate struct {
	RTT
	PathWindow int // bytes that the path allows in flight; 0 = unknown

	rate rate

	// The start.
	lastBulk time.Duration               // when bulk was last sent; 0 = never
	steady   bool                        // the start is over
	flat     int                         // rounds since plateau rose
	plateau  float64                     // the rate when it last grew by a quarter
	latest   [startSamples]time.Duration // latest round trips, a ring
	samples  int                         // number of round trips put into latest
	// This start follows a drain. The limit is twice what the path holds, without
	// queuePackets.
	gentle bool

	// Maximum jitter that the deviation may count for. It is the jitter before the start,
	// because later round trips include our own queue.
	maxJitter time.Duration
	// Excess of the mean round trip over the minimum in the last drain or before the start.
	excess time.Duration

	drain  drain
	peak   float64 // maximum rate since the start began or the last drain ended
	looked int     // Rounds when stood was last updated
	stood  int     // consecutive batches of round trips that showed a queue
}

// Sent returns the mark of a packet that is being sent. inFlight is the number of bytes in
// flight without it.
func (g *Gate) Sent(now time.Duration, inFlight int) Mark {
	m := g.rate.mark(now, inFlight)
	m.drained = g.drain.end != 0 && inFlight <= g.Window(drainPacket)
	return m
}

// Bulk is called when bulk is sent. After a pause the start begins again, because a rate
// measured with a few small messages or long ago must not limit bulk.
func (g *Gate) Bulk(now time.Duration) {
	pause := max(bulkPause, 4*g.Current())
	if g.lastBulk == 0 || now-g.lastBulk > pause {
		g.start(false)
		g.maxJitter = g.deviation()
		if g.sampledAt-g.lastBulk > pause/2 {
			g.learnFromPause(now)
		}
	}
	g.lastBulk = now
}

// learnFromPause takes jitter and the minimum from the round trips of a pause, when there
// was no queue of bulk. No drain is needed for 10 s afterwards. A drain at the beginning of
// bulk would limit it to the little that was sent before.
func (g *Gate) learnFromPause(now time.Duration) {
	g.excess = max(0, g.Smoothed-g.Min)
	g.drain = drain{}
	g.minAt = now
}

// start begins the start again.
func (g *Gate) start(gentle bool) {
	g.steady = false
	g.flat = 0
	g.plateau = 0
	g.peak = 0
	g.samples = 0
	g.gentle = gentle
}

// Acked counts a packet that arrived, including one that was declared lost before.
func (g *Gate) Acked(now time.Duration, m *Mark, size int) {
	g.rate.count(m, size)
	g.rate.deliveredAt = now
}

// Lost counts a lost packet as delivered as well while no queue stands, because the path
// carried it. Otherwise random loss, which says nothing about the path's capacity, would
// keep lowering the limit.
func (g *Gate) Lost(m *Mark, size int) {
	if g.Known() && !g.queueStands() {
		g.rate.count(m, size)
	}
}

// Limited is called when the owner has nothing more to send although only inFlight bytes
// are in flight.
func (g *Gate) Limited(inFlight int) {
	g.rate.limitedTill = g.rate.delivered + int64(max(inFlight, 1))
}

// jitter returns how far round trips exceed the minimum when there is no queue. A window
// for the minimum alone would shrink with every round whose round trips exceed the minimum
// by more than slack, down to minPackets (rpctest.TestBlobsInJitter).
func (g *Gate) jitter() time.Duration { return max(g.excess, min(g.maxJitter, g.deviation())) }

// deviation returns the jitter that the variance of round trips shows.
func (g *Gate) deviation() time.Duration { return jitterDeviations * max(0, g.Variance-calmDeviation) }

// queueStands reports whether the latest RTT shows more of a queue than bulk may build.
func (g *Gate) queueStands() bool { return g.shows(g.Adjusted) }

// shows reports whether a round trip shows more of a queue than bulk may build.
func (g *Gate) shows(rtt time.Duration) bool { return rtt > g.Min+slack+g.Min/4+g.jitter() }

// queueBegins adds a round trip and reports whether the latest ones all show a queue,
// however small. During the start the rate doubles with each round trip, so a queue must be
// noticed before it stands.
func (g *Gate) queueBegins() bool {
	g.latest[g.samples%startSamples] = g.Adjusted
	g.samples++
	limit := g.Min + min(max(g.Min/8, minStartQueue), maxStartQueue) + g.jitter()
	return g.samples >= startSamples && slices.Min(g.latest[:]) > limit
}

// Measure samples the rate by the newest packet of an ack, which was sent at the time sent.
// The owner calls Acked and Update first.
//
// A sample limited by the application counts less, unless it met a queue that the
// application may have built: then the path was the limit.
//
// Rounds limited by the application do not age rates, and those of a trickle do not end the
// start. The reports of a peer that receives a transfer are bulk as well, and they meet the
// queue of the bulk that it receives.
func (g *Gate) Measure(now, sent time.Duration, m *Mark) {
	limited := m.limited && (g.trickles(m) || !g.queueStands())
	if g.rate.roundOver(m) && !limited {
		g.checkGrowth()
		g.rate.age()
	}
	g.rate.sample(now, sent, m, g.Min/2, limited)
	g.peak = max(g.peak, g.rate.value)
	if !m.limited || !g.trickles(m) {
		g.steady = g.queueBegins() && !g.gentle || g.queueStands() || g.steady
	}
	if g.looked != g.Rounds {
		g.looked = g.Rounds
		if limited || !g.steady || !g.shows(g.Recent) {
			g.stood = 0
		} else {
			g.stood++
		}
	}
	if g.drain.end == 0 && g.wantsDrain(now) {
		g.beginDrain(now)
	}
	if g.drain.end != 0 {
		g.drain.note(g.Adjusted, m)
		g.endDrain(now)
	}
}

// trickles reports whether no more than a trickle arrived since the packet of m was sent.
// Any queue that it met then belongs to others.
func (g *Gate) trickles(m *Mark) bool {
	return float64(g.rate.delivered-m.delivered) < max(g.rate.value*g.Min.Seconds()*trickle, minTrickle)
}

// checkGrowth ends the start once the rate has stopped growing.
func (g *Gate) checkGrowth() {
	if g.rate.value > g.plateau*5/4 {
		g.plateau = g.rate.value
		g.flat = 0
		return
	}
	g.flat++
	if g.flat >= flatRounds {
		g.steady = true
	}
}

// wantsDrain reports whether a drain should begin.
func (g *Gate) wantsDrain(now time.Duration) bool {
	return g.Known() && (now-g.minAt > minRTTLifetime || g.stood >= standBatches || g.closes())
}

// closes reports whether the rate is falling while the limit is the gate's own rather than
// the path's window. Round trips are then longer than the gate assumes, because of jitter,
// because packets arrive in clumps, or because others fill a queue. Each window then
// carries less than the one before.
//
// Such round trips need not show as a queue, because slack and a quarter of the minimum are
// allowed.
func (g *Gate) closes() bool {
	own := g.rate.value * (g.Min + g.jitter() + slack).Seconds()
	return g.steady && g.rate.value < g.peak*fallen && (g.PathWindow == 0 || own < float64(g.PathWindow))
}

// beginDrain begins a drain of one and a half round trips.
func (g *Gate) beginDrain(now time.Duration) {
	g.drain = drain{end: now + g.Smoothed*3/2, closing: g.closes(), minTrip: g.Adjusted}
	if g.shows(g.Recent) {
		// The path was the limit and may have become slower. An older rate would not drain
		// the queue.
		g.rate.renew()
	}
}

// endDrain ends a drain that is over, and takes the minimum and the jitter from it.
func (g *Gate) endDrain(now time.Duration) {
	d := g.drain
	if now < d.end {
		return
	}
	g.drain = drain{}
	g.stood = 0
	g.peak = g.rate.value
	// A slightly longer round trip may be our own queue, of no more than may always be in
	// flight.
	longer := g.shows(d.minTrip - g.undrained())
	if longer || d.closing || now-g.minAt > minRTTLifetime {
		if g.steady && d.minTrip > 2*g.Min {
			g.start(true)
		}
		g.Min = d.minTrip
		g.minAt = now
	}
	if d.packets > 0 {
		g.excess = max(0, d.trips/time.Duration(d.packets)-g.Min-g.undrained())
	}
}

// undrained returns the time that minPackets take, which stay in flight during a drain. It
// returns an hour while the rate is unknown.
func (g *Gate) undrained() time.Duration {
	seconds := min(minPackets*drainPacket/g.rate.value, 3600)
	return time.Duration(seconds * float64(time.Second))
}

// Window returns the number of bytes of bulk that may be in flight. datagram is the size of
// a full packet.
func (g *Gate) Window(datagram int) int {
	path := g.PathWindow
	if path == 0 {
		path = unknownWindow
	}
	if g.steady {
		path += pathSlack * datagram
	}
	bound := float64(path)
	held := g.rate.value * (g.Min + g.jitter()).Seconds()
	queue := float64(queuePackets * datagram)
	switch {
	case g.rate.value == 0:
	case g.drain.end != 0:
		bound = g.rate.value * g.Min.Seconds() * 3 / 4
	case !g.steady && g.gentle:
		bound = 2 * held
	case !g.steady:
		bound = 2*held + queue
	default:
		bound = held + max(min(g.rate.value*slack.Seconds(), queue), float64(slackPackets*datagram))
	}
	return max(minPackets*datagram, int(min(bound, float64(path))))
}

// Rate returns the delivery rate in bytes per second, or 0 if none was measured.
func (g *Gate) Rate() float64 { return g.rate.value }

// Estimate returns the expected rate in bytes per second, or 0 if it is unknown. A rate
// measured while the application sent little says nothing about the path. During the start,
// the rate of the path's window therefore counts if it is higher.
func (g *Gate) Estimate() float64 {
	if g.steady || g.PathWindow == 0 || !g.Known() {
		return g.rate.value
	}
	return max(g.rate.value, float64(g.PathWindow)/g.Smoothed.Seconds())
}
