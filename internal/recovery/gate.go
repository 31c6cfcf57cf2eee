package recovery

import (
	"slices"
	"time"
)

const (
	slack        = 20 * time.Millisecond // of queue is what bulk may keep on the path
	queuePackets = 96                    // that may queue at most: quic-go's receiver holds 128 datagrams and drops the newest
	// pathSlack packets beyond the path's window may be in flight, so that one waits inside the carrier when an ack makes
	// room; quic-go's window grows while in flight is within 3 packets of it. What waits there stands before play: with 4
	// at 10 Mbit/s, 50 ms and 1 % loss play took 5 ms longer in the median and 10 to 20 ms in its p99, and bulk was no
	// faster. With 1 bulk took up to 7 % longer where losses keep the window small. Slow start needs none, and what would
	// wait then for the window looks like a queue.
	pathSlack     = 2
	leastPackets  = 4                    // may always be in flight
	slackPackets  = 2                    // may queue at least: on a slow path less is none, for packets are whole
	flatRounds    = 3                    // rounds without growth by a quarter that end the start
	startSamples  = 4                    // round trips in a row that show a queue end it too
	minStartQueue = 4 * time.Millisecond // as in HyStart++ (RFC 9406)
	maxStartQueue = 16 * time.Millisecond
	bulkPause     = time.Second // after which the start begins anew
	unknownWindow = 1 << 30

	// calmDeviation of the round trips is what queues of ours and held acks make; jitterDeviations times what is beyond is more
	// than the mean of round trips in jitter lies above the least, which is three times their deviation where both ways
	// jitter evenly.
	calmDeviation    = 8 * time.Millisecond
	jitterDeviations = 4
)

// Gate bounds bulk: in flight at most the path's window, and at most the delivery rate times (minimum RTT + 20 ms), or two
// packets more than without a queue, so that bulk keeps no standing queue in front of play. At the start, until the rate
// stops growing or a queue builds, twice the rate times the minimum RTT may be in flight, and a queue. When the minimum RTT
// has expired, bulk drains the queue that it may have built, and the least RTT of that time is the new minimum.
type Gate struct {
	RTT
	PathWindow int // in bytes, 0 = not told

	rate rate

	// The start.
	lastBulk time.Duration // sent; 0 = none yet
	steady   bool
	flat     int // rounds since the plateau rose
	plateau  float64
	latest   [startSamples]time.Duration // round trips, in turn
	samples  int

	mostJitter time.Duration // what round trips showed before the start: after it they show our own queue, too

	drainEnd time.Duration // 0 = not draining
	drainMin time.Duration // the least RTT while draining
}

// Sent marks a packet that leaves while others have so many bytes in flight.
func (g *Gate) Sent(now time.Duration, inFlight int) Mark { return g.rate.mark(now, inFlight) }

// Bulk notes that bulk leaves. After a pause it starts anew: what was learnt from a few small messages, or long ago, must
// not hold it back.
func (g *Gate) Bulk(now time.Duration) {
	if g.lastBulk == 0 || now-g.lastBulk > max(bulkPause, 4*g.Current()) {
		g.steady, g.flat, g.plateau, g.samples = false, 0, 0, 0
		g.mostJitter = g.deviation()
	}
	g.lastBulk = now
}

// Acked counts a packet that arrived, also one that counted as lost.
func (g *Gate) Acked(now time.Duration, m *Mark, size int) {
	g.rate.count(m, size)
	g.rate.deliveredAt = now
}

// Lost counts a lost packet as delivered too while no queue stands: the path took it. Otherwise random loss, which says
// nothing about how much a path takes, would close the gate ever further.
func (g *Gate) Lost(m *Mark, size int) {
	if g.Known() && !g.queueStands() {
		g.rate.count(m, size)
	}
}

// Limited notes that there was nothing more to send with so many bytes in flight.
func (g *Gate) Limited(inFlight int) { g.rate.limitedTill = g.rate.delivered + int64(max(inFlight, 1)) }

// jitter is by how much round trips are longer than the least for no queue. A window for the least alone would shrink with each
// round in which they are longer than its slack, to the last four packets (rpctest.TestBlobsInJitter).
func (g *Gate) jitter() time.Duration { return min(g.mostJitter, g.deviation()) }

func (g *Gate) deviation() time.Duration { return jitterDeviations * max(0, g.Variance-calmDeviation) }

// queueStands reports whether the latest RTT shows more of a queue than bulk may build.
func (g *Gate) queueStands() bool { return g.Adjusted > g.Min+slack+g.Min/4+g.jitter() }

// queueBegins reports whether the last round trips all show a queue, however small: at the start, where the rate doubles
// with each, it is to be seen before it stands.
func (g *Gate) queueBegins() bool {
	g.latest[g.samples%startSamples] = g.Adjusted
	g.samples++
	limit := g.Min + min(max(g.Min/8, minStartQueue), maxStartQueue) + g.jitter()
	return g.samples >= startSamples && slices.Min(g.latest[:]) > limit
}

// Measure takes what the newest packet of an ack, which left at sent, tells of the rate. Its ack, and RTT's update by it,
// come before. What the application limited says little, but not when a queue stands: then the path is the limit all the
// same. Rounds that it limited do not age rates.
func (g *Gate) Measure(now, sent time.Duration, m *Mark) {
	limited := m.limited && !g.queueStands()
	if g.rate.roundOver(m) && !limited {
		g.checkGrowth()
		g.rate.age()
	}
	g.rate.sample(now, sent, m, g.Min/2, limited)
	g.steady = g.queueBegins() || g.queueStands() || g.steady
	g.drain(now)
}

// checkGrowth ends the start when the rate has stopped growing.
func (g *Gate) checkGrowth() {
	if g.rate.value > g.plateau*5/4 {
		g.plateau, g.flat = g.rate.value, 0
	} else if g.flat++; g.flat >= flatRounds {
		g.steady = true
	}
}

// drain sees to it that the minimum RTT is not one of long ago.
func (g *Gate) drain(now time.Duration) {
	if g.drainEnd == 0 {
		if !g.Known() || now-g.minAt <= minRTTLifetime {
			return
		}
		g.drainEnd, g.drainMin = now+g.Smoothed*3/2, g.Adjusted
	}
	g.drainMin = min(g.drainMin, g.Adjusted)
	if now >= g.drainEnd {
		g.Min, g.minAt, g.drainEnd = g.drainMin, now, 0
	}
}

// Window is how many bytes bulk may have in flight; datagram is the size of its full packets.
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
	case g.drainEnd != 0:
		bound = held * 3 / 4
	case !g.steady:
		bound = 2*held + queue
	default:
		bound = held + max(min(g.rate.value*slack.Seconds(), queue), float64(slackPackets*datagram))
	}
	return max(leastPackets*datagram, int(min(bound, float64(path))))
}

// Rate is the delivery rate in bytes a second, 0 when nothing was measured.
func (g *Gate) Rate() float64 { return g.rate.value }

// Estimate is the rate to expect in bytes a second, 0 when nothing is known. What was measured while the application sent
// little says nothing of the path, so until the rate is steady what the path's window promises counts when it is more.
func (g *Gate) Estimate() float64 {
	if g.steady || g.PathWindow == 0 || !g.Known() {
		return g.rate.value
	}
	return max(g.rate.value, float64(g.PathWindow)/g.Smoothed.Seconds())
}
