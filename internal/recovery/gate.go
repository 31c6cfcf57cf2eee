package recovery

import (
	"slices"
	"time"
)

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

	// The start ends after flatRounds rounds in which the rate hasn't grown by a quarter, or after
	// startSamples round trips in a row that show a queue.
	flatRounds    = 3
	startSamples  = 4
	minStartQueue = 4 * time.Millisecond // MIN_RTT_THRESH and MAX_RTT_THRESH of HyStart++ (RFC 9406, section 4.3)
	maxStartQueue = 16 * time.Millisecond

	// What arrives in a round trip is a trickle if it's less than this part of what the path holds.
	// It always is below minTrickle bytes, since that is less than minPackets and may always be
	// queued.
	trickle    = 1. / 16
	minTrickle = 2 << 10

	// bulkPause is how long bulk must pause before the start begins again. It must also be longer
	// than four round trips.
	bulkPause     = time.Second
	unknownWindow = 1 << 30

	// standBatches is how many batches of round trips in a row (see RTT.Recent) a queue must stand
	// before we drain to find out whose it is.
	standBatches = 4
	drainPacket  = 1200 // size of a packet of bulk, approximately

	// fallen is the part of its peak below which a rate has fallen rather than varied.
	fallen = 7. / 8

	// calmDeviation is how much round trips deviate because of our own queues and of delayed acks.
	// Anything beyond that is jitter. With even jitter in both directions, the mean round trip is
	// three deviations above the minimum, so jitterDeviations is sure to cover it.
	calmDeviation    = 8 * time.Millisecond
	jitterDeviations = 4
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

	rate rate

	// The start.
	lastBulk time.Duration               // when bulk was last sent; 0 if never
	steady   bool                        // the start is over
	flat     int                         // how many rounds ago plateau last rose
	plateau  float64                     // the rate when it last grew by a quarter
	latest   [startSamples]time.Duration // the latest round trips, as a ring
	samples  int                         // how many round trips were put into latest
	gentle   bool                        // this start follows a drain, so the window has no queuePackets

	// Jitter.
	maxJitter time.Duration // limits what deviations count for; from before the start, without our queue
	excess    time.Duration // of the mean round trip over the minimum, in the last drain or before the start

	// Draining.
	drain  drain
	peak   float64 // highest rate since the start began or the last drain ended
	looked int     // Rounds when stood was last updated
	stood  int     // batches of round trips in a row that showed a queue
}

// Sent returns the mark of a packet that is being sent. inFlight is how many bytes are in flight
// without it.
func (g *Gate) Sent(now time.Duration, inFlight int) Mark {
	m := g.rate.mark(now, inFlight)
	m.drained = g.drain.end != 0 && inFlight <= g.Window(drainPacket)
	return m
}

// Bulk is called when bulk is sent. After a pause the start begins again, since we don't want to be
// limited by a rate that was measured long ago, or with only a few small messages.
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

// learnFromPause takes the minimum and the jitter from round trips during a pause, when there
// was no queue of bulk. No drain is needed for the next 10 s, then. If bulk began with a drain,
// it would be limited to the little that was sent before.
func (g *Gate) learnFromPause(now time.Duration) {
	g.excess = max(0, g.Smoothed-g.Min)
	g.drain = drain{}
	g.minAt = now
}

// start begins the start anew.
func (g *Gate) start(gentle bool) {
	g.steady = false
	g.flat = 0
	g.plateau = 0
	g.peak = 0
	g.samples = 0
	g.gentle = gentle
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

// jitter returns by how much round trips exceed the minimum without a queue. If the window allowed
// for the minimum alone, it would shrink with every round whose round trips are longer by more than
// slack, down to minPackets (rpctest.TestBlobsInJitter).
func (g *Gate) jitter() time.Duration { return max(g.excess, min(g.maxJitter, g.deviation())) }

// deviation returns how much jitter there is, going by the variance of round trips.
func (g *Gate) deviation() time.Duration { return jitterDeviations * max(0, g.Variance-calmDeviation) }

// queueStands reports whether the latest round trip shows more of a queue than bulk may build.
func (g *Gate) queueStands() bool { return g.shows(g.Adjusted) }

// shows reports whether a round trip shows more of a queue than bulk may build.
func (g *Gate) shows(rtt time.Duration) bool { return rtt > g.Min+slack+g.Min/4+g.jitter() }

// queueBegins adds a round trip, and reports whether the latest ones all show a queue, however
// short. The rate doubles with each round trip of the start, so it would be too late if we noticed
// the queue when it stands.
func (g *Gate) queueBegins() bool {
	g.latest[g.samples%startSamples] = g.Adjusted
	g.samples++
	limit := g.Min + min(max(g.Min/8, minStartQueue), maxStartQueue) + g.jitter()
	return g.samples >= startSamples && slices.Min(g.latest[:]) > limit
}

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
	limited := m.limited && (g.trickles(m) || !g.queueStands())
	if g.rate.endRound(m) && !limited {
		g.checkGrowth()
		g.rate.age()
	}
	g.rate.sample(now, sent, m, g.Min/2, limited)
	g.peak = max(g.peak, g.rate.value)
	if !m.limited || !g.trickles(m) {
		g.steady = g.queueBegins() && !g.gentle || g.queueStands() || g.steady
	}
	// See once per batch whether a queue stood in it.
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

// trickles reports whether only a trickle has arrived since the packet with this mark was sent. Any
// queue that the packet met then belongs to others.
func (g *Gate) trickles(m *Mark) bool {
	return float64(g.rate.delivered-m.delivered) < max(g.rate.value*g.Min.Seconds()*trickle, minTrickle)
}

// checkGrowth ends the start when the rate has stopped growing.
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

// wantsDrain reports whether it is time for a drain.
func (g *Gate) wantsDrain(now time.Duration) bool {
	return g.Known() && (now-g.minAt > minRTTLifetime || g.stood >= standBatches || g.closes())
}

// closes reports whether the rate keeps falling while it's our own window that limits it. This
// happens when round trips are longer than we assume, because of jitter, because packets arrive
// in clumps, or because others fill a queue. Each window then carries less than the one before.
//
// We may not see it as a queue, since we allow for slack and a quarter of the minimum.
func (g *Gate) closes() bool {
	own := g.rate.value * (g.Min + g.jitter() + slack).Seconds()
	return g.steady && g.rate.value < g.peak*fallen && (g.PathWindow == 0 || own < float64(g.PathWindow))
}

// beginDrain begins a drain, which takes one and a half round trips.
func (g *Gate) beginDrain(now time.Duration) {
	g.drain = drain{end: now + g.Smoothed*3/2, closing: g.closes(), minTrip: g.Adjusted}
	if g.shows(g.Recent) {
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
	g.stood = 0
	g.peak = g.rate.value
	// Don't mistake for a longer path what may be a queue of our own, made of the packets that may
	// always be in flight.
	longer := g.shows(d.minTrip - g.undrained())
	if longer || d.closing || now-g.minAt > minRTTLifetime {
		if g.steady && d.minTrip > 2*g.Min {
			// It is another path.
			g.start(true)
		}
		g.Min = d.minTrip
		g.minAt = now
	}
	if d.packets > 0 {
		g.excess = max(0, d.trips/time.Duration(d.packets)-g.Min-g.undrained())
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
	if g.steady {
		path += pathSlack * datagram
	}
	bound := float64(path)
	held := g.rate.value * (g.Min + g.jitter()).Seconds()
	queue := float64(queuePackets * datagram)
	switch {
	case g.rate.value == 0:
		// We know nothing yet, so it's up to the path.
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

// Rate returns the delivery rate in bytes per second, or 0 if it was never measured.
func (g *Gate) Rate() float64 { return g.rate.value }

// Estimate returns the rate that we expect, in bytes per second, or 0 if we can't tell. While
// the application sends only a little, its rate says nothing about the path. So during the start
// we go by the path's window if that promises more.
func (g *Gate) Estimate() float64 {
	if g.steady || g.PathWindow == 0 || !g.Known() {
		return g.rate.value
	}
	return max(g.rate.value, float64(g.PathWindow)/g.Smoothed.Seconds())
}
