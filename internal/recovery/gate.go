package recovery

import (
	"slices"
	"time"
)

const (
	slack = 20 * time.Millisecond // how long a queue bulk may cause on the path
	// Most packets in that queue: quic-go's receiver holds 128 datagrams and drops further ones.
	queuePackets = 96
	// pathSlack is how many packets may be in flight beyond the path's window, so that
	// one waits inside the carrier when an ack makes room; quic-go's window grows while
	// the bytes in flight are within 3 packets of it. Play is sent after the packets
	// that wait there: with 4 at 10 Mbit/s, 50 ms and 1 % loss, play took 5 ms longer
	// in the median and 10 to 20 ms in its p99, and bulk was no faster. With 1, bulk
	// took up to 7 % longer if losses kept the window small. During the start there is
	// no slack, because packets that wait for the window would look like a queue.
	pathSlack    = 2
	leastPackets = 4 // how many packets may always be in flight
	// How many packets may always queue: packets are whole, so on a slow path
	// fewer would mean none.
	slackPackets = 2
	// The start ends after this many rounds in which the rate did not grow by a quarter,.
	flatRounds    = 3
	startSamples  = 4                    // or after this many round trips in a row that show a queue
	minStartQueue = 4 * time.Millisecond // MIN_RTT_THRESH and MAX_RTT_THRESH of HyStart++ (RFC 9406, section 4.3)
	maxStartQueue = 16 * time.Millisecond
	// The bytes that arrive in a round trip are a trickle if they are less than
	// this part of what the path holds, and always below leastTrickle, which is
	// less than leastPackets: a queue of so little may always stand.
	trickle       = 1. / 16
	leastTrickle  = 2 << 10
	bulkPause     = time.Second // after a pause of bulk longer than this and four round trips, the start begins again
	unknownWindow = 1 << 30
	// standBatches is for how many batches of round trips in a row (see
	// RTT.Recent) a queue must stand before a drain finds out whose it is.
	standBatches = 4
	drainPacket  = 1200 // approximate size of a packet of bulk
	// fallen is the part of its peak below which a rate has fallen, and has not only varied.
	fallen = 7. / 8

	// calmDeviation is the deviation of round trips that our own queues and delayed acks cause.
	// jitterDeviations times the deviation beyond it is more than the mean of round trips is
	// above the least: with even jitter in both directions that is three times the deviation.
	calmDeviation    = 8 * time.Millisecond
	jitterDeviations = 4
)

// A Gate limits how much bulk may be in flight, so that bulk keeps no standing queue in front of
// play. The limit is the path's window, and the delivery rate times (minimum RTT + jitter + slack),
// or slackPackets more than without a queue. During the start, until the rate stops growing or a
// queue builds, it is twice the rate times the minimum RTT, plus queuePackets. A drain begins when
// the minimum RTT has expired, when a queue stands, or when the gate closes further and further:
// bulk then drains the queue that it may have built. The least RTT of the drain is the new minimum,
// and by how much the others exceed it is jitter. If the minimum is much longer, the path has
// changed, and the start begins again, but gently, because the queue may be of others.
type Gate struct {
	RTT
	PathWindow int // bytes that the path allows in flight; 0 = unknown

	rate rate

	// The start.
	lastBulk time.Duration               // when bulk was last sent; 0 = never
	steady   bool                        // the start is over
	flat     int                         // rounds since plateau rose
	plateau  float64                     // the rate when it had last grown by a quarter
	latest   [startSamples]time.Duration // latest round trips, a ring
	samples  int                         // number of round trips put into latest
	// This start follows a drain: the limit is twice what the path holds, without queuePackets.
	gentle bool

	// Most jitter that the deviation may count for: that before the start,
	// because later round trips show our own queue, too.
	mostJitter time.Duration
	excess     time.Duration // how far the mean round trip was above the least, in the last drain or before the start

	drain  drain
	peak   float64 // greatest rate since the start began or the last drain ended
	looked int     // Rounds when stood was last updated
	stood  int     // batches of round trips in a row that showed a queue
}

// Sent returns the mark of a packet that is sent; inFlight is the bytes of the others in flight.
func (g *Gate) Sent(now time.Duration, inFlight int) Mark {
	m := g.rate.mark(now, inFlight)
	m.drained = g.drain.end != 0 && inFlight <= g.Window(drainPacket)
	return m
}

// Bulk is called when bulk is sent. After a pause the start begins again, because a
// rate that was measured with a few small messages, or long ago, must not limit bulk.
func (g *Gate) Bulk(now time.Duration) {
	if pause := max(bulkPause, 4*g.Current()); g.lastBulk == 0 || now-g.lastBulk > pause {
		g.start(false)
		g.mostJitter = g.deviation()
		if g.sampledAt-g.lastBulk > pause/2 {
			g.learnFromPause(now)
		}
	}
	g.lastBulk = now
}

// learnFromPause takes jitter and the minimum from the round trips of a pause,
// in which there was no queue of bulk. So no drain is needed for 10 s. A drain
// in which bulk begins would limit it to the little that was sent before.
func (g *Gate) learnFromPause(now time.Duration) {
	g.excess = max(0, g.Smoothed-g.Min)
	g.drain, g.minAt = drain{}, now
}

// start begins the start again.
func (g *Gate) start(gentle bool) {
	g.steady, g.flat, g.plateau, g.peak, g.samples, g.gentle = false, 0, 0, 0, 0, gentle
}

// Acked counts a packet that arrived, even if it counted as lost before.
func (g *Gate) Acked(now time.Duration, m *Mark, size int) {
	g.rate.count(m, size)
	g.rate.deliveredAt = now
}

// Lost counts a lost packet as delivered, too, while no queue stands, because
// the path has carried it. Otherwise random loss, which says nothing about the
// path's capacity, would close the gate further and further.
func (g *Gate) Lost(m *Mark, size int) {
	if g.Known() && !g.queueStands() {
		g.rate.count(m, size)
	}
}

// Limited is called when the owner has nothing more to send although only
// inFlight bytes are in flight.
func (g *Gate) Limited(inFlight int) { g.rate.limitedTill = g.rate.delivered + int64(max(inFlight, 1)) }

// jitter returns how much longer than the least round trips are without any queue.
// A window for the least alone would shrink with each round in which they are
// longer by more than slack, down to leastPackets (rpctest.TestBlobsInJitter).
func (g *Gate) jitter() time.Duration { return max(g.excess, min(g.mostJitter, g.deviation())) }

// deviation returns the jitter that the variance of round trips shows.
func (g *Gate) deviation() time.Duration { return jitterDeviations * max(0, g.Variance-calmDeviation) }

// queueStands reports whether the latest RTT shows more of a queue than bulk may build.
func (g *Gate) queueStands() bool { return g.shows(g.Adjusted) }

// shows reports whether a round trip shows more of a queue than bulk may build.
func (g *Gate) shows(rtt time.Duration) bool { return rtt > g.Min+slack+g.Min/4+g.jitter() }

// queueBegins adds a round trip, and reports whether the latest ones all show a
// queue, however small. At the start the rate doubles with each round trip, so
// a queue must be noticed before it stands.
func (g *Gate) queueBegins() bool {
	g.latest[g.samples%startSamples] = g.Adjusted
	g.samples++
	limit := g.Min + min(max(g.Min/8, minStartQueue), maxStartQueue) + g.jitter()
	return g.samples >= startSamples && slices.Min(g.latest[:]) > limit
}

// Measure samples the rate by the newest packet of an ack, which was sent at sent. The owner
// calls Acked and Update before. A sample that the application limited counts less, unless it
// met a queue that it may have built: then the path was the limit. Rounds that the application
// limited do not age rates, and those of a trickle do not end the start: the reports of a peer
// that receives a transfer are bulk, too, and meet the queue of the bulk that it receives.
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
		if g.stood++; limited || !g.steady || !g.shows(g.Recent) {
			g.stood = 0
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

// trickles reports whether no more than a trickle arrived since the packet of m
// was sent: the queue that it met is of others.
func (g *Gate) trickles(m *Mark) bool {
	return float64(g.rate.delivered-m.delivered) < max(g.rate.value*g.Min.Seconds()*trickle, leastTrickle)
}

// checkGrowth ends the start when the rate has stopped growing.
func (g *Gate) checkGrowth() {
	if g.rate.value > g.plateau*5/4 {
		g.plateau, g.flat = g.rate.value, 0
	} else if g.flat++; g.flat >= flatRounds {
		g.steady = true
	}
}

// wantsDrain reports whether a drain should begin.
func (g *Gate) wantsDrain(now time.Duration) bool {
	return g.Known() && (now-g.minAt > minRTTLifetime || g.stood >= standBatches || g.closes())
}

// closes reports whether the rate falls while the limit is the gate's own, and not the path's
// window. Round trips are then longer than the gate assumes, and each window carries less than
// the one before: because of jitter, because packets arrive in clumps, or because others fill
// a queue. Up to slack and a quarter of the least round trip more does not show as a queue.
func (g *Gate) closes() bool {
	own := g.rate.value * (g.Min + g.jitter() + slack).Seconds()
	return g.steady && g.rate.value < g.peak*fallen && (g.PathWindow == 0 || own < float64(g.PathWindow))
}

// beginDrain begins a drain of one and a half round trips.
func (g *Gate) beginDrain(now time.Duration) {
	g.drain = drain{end: now + g.Smoothed*3/2, closing: g.closes(), least: g.Adjusted}
	if g.shows(g.Recent) {
		g.rate.renew() // the path was the limit and may have become slower, so an older rate would not drain the queue
	}
}

// endDrain ends a drain if it is over, and takes the minimum and the jitter from it.
func (g *Gate) endDrain(now time.Duration) {
	d := g.drain
	if now < d.end {
		return
	}
	g.drain, g.stood, g.peak = drain{}, 0, g.rate.value
	if longer := g.shows(d.least - g.undrained()); longer || d.closing || now-g.minAt > minRTTLifetime {
		if g.steady && d.least > 2*g.Min {
			g.start(true)
		}
		g.Min, g.minAt = d.least, now
	} // otherwise it may be a queue of ours, of no more than may always be in flight
	if d.packets > 0 {
		g.excess = max(0, d.trips/time.Duration(d.packets)-g.Min-g.undrained())
	}
}

// undrained returns how long leastPackets take, which stay in flight during a drain.
func (g *Gate) undrained() time.Duration {
	return time.Duration(min(leastPackets*drainPacket/g.rate.value, 3600) * float64(time.Second)) // an hour while the rate is unknown
}

// Window returns how many bytes of bulk may be in flight; datagram is the size of a full packet.
func (g *Gate) Window(datagram int) int {
	path := g.PathWindow
	if path == 0 {
		path = unknownWindow
	}
	if g.steady {
		path += pathSlack * datagram
	}
	bound, held, queue := float64(path), g.rate.value*(g.Min+g.jitter()).Seconds(), float64(queuePackets*datagram)
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
	return max(leastPackets*datagram, int(min(bound, float64(path))))
}

// Rate returns the delivery rate in bytes a second, or 0 if none was measured.
func (g *Gate) Rate() float64 { return g.rate.value }

// Estimate returns the expected rate in bytes a second, or 0 if it is unknown. A
// rate that was measured while the application sent little says nothing about the
// path, so during the start the rate of the path's window counts if it is higher.
func (g *Gate) Estimate() float64 {
	if g.steady || g.PathWindow == 0 || !g.Known() {
		return g.rate.value
	}
	return max(g.rate.value, float64(g.PathWindow)/g.Smoothed.Seconds())
}
