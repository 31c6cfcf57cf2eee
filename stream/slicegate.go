package stream

import (
	"math"
	"time"
)

const (
	// sliceSlack of queue is what bulk may keep on the path in front of play.
	sliceSlack = 20 * time.Millisecond
	// sliceQueue bounds that queue in bytes: quic-go's receiver holds 128 datagrams and drops the newest.
	sliceQueue = 96 * sliceDatagram
	// leastSliceWindow may always be in flight: four packets.
	leastSliceWindow = 4 * sliceDatagram

	sliceRounds     = 10               // round trips that a rate stays the maximum
	sliceFlatRounds = 3                // rounds without growth by a quarter that end the start
	sliceMinRTTLife = 10 * time.Second // that the minimum RTT is believed
	slicePause      = time.Second      // after which the start begins anew
)

// rateMark is the state of the delivery count when a slice left (draft-cheng-iccrg-delivery-rate-estimation).
type rateMark struct {
	delivered              int64
	deliveredAt, firstSent time.Time
	limited                bool // by the application: it had nothing more
}

// sliceGate says how many bytes of slices may be in flight: at most the path's window, and at most the measured rate times
// (minimum RTT + 20 ms), so that they keep no standing queue in front of play. Until the rate stops growing or a queue
// builds, twice the rate times the minimum RTT may be. When the minimum has expired, the queue is drained to see it again.
type sliceGate struct {
	path int // the path's window in bytes, 0 = not told

	// The round trip, which includes what the peer waits with its acks, 2 ms at most.
	smoothed, variance, latest time.Duration // 0 = not known
	min                        time.Duration
	minAt                      time.Time

	// The rate in bytes a second.
	delivered              int64
	deliveredAt, firstSent time.Time
	limitedTill            int64
	roundEnd               int64
	round                  int
	best                   [sliceRounds]float64
	rate                   float64 // the largest of them, 0 = not known

	// The start.
	lastSent time.Time
	steady   bool
	flat     int
	plateau  float64

	drainEnd time.Time // zero = not draining
	drainMin time.Duration
}

// sent marks a slice that leaves while others have so many bytes in flight.
func (g *sliceGate) sent(now time.Time, p *sentSlice, others int) {
	if now.Sub(g.lastSent) > max(slicePause, 4*g.smoothed) {
		g.steady, g.flat, g.plateau = false, 0, 0
	}
	g.lastSent = now
	if others == 0 {
		g.firstSent, g.deliveredAt = now, now
	}
	p.mark = rateMark{g.delivered, g.deliveredAt, g.firstSent, g.delivered < g.limitedTill}
}

// landed counts what arrived.
func (g *sliceGate) landed(now time.Time, p *sentSlice) {
	g.delivered += int64(p.size)
	g.deliveredAt = now
}

// lost counts what is lost as well while no queue stands, for the path took it: random loss must not close the gate.
func (g *sliceGate) lost(p *sentSlice) {
	if g.smoothed != 0 && !g.queueStands() {
		g.delivered += int64(p.size)
	}
}

// idle notes that there is nothing more to send with so many bytes in flight.
func (g *sliceGate) idle(inFlight int) { g.limitedTill = g.delivered + int64(max(inFlight, 1)) }

// queueStands reports whether the latest round trip shows a longer queue than bulk may build.
func (g *sliceGate) queueStands() bool { return g.latest > g.min+sliceSlack+g.min/4 }

// measure takes what the newest slice of an ack, which left only once, tells of the path.
func (g *sliceGate) measure(now time.Time, p *sentSlice) {
	g.sampleRTT(now, max(now.Sub(p.at), time.Microsecond))
	g.sampleRate(now, p)
	g.drain(now)
}

func (g *sliceGate) sampleRTT(now time.Time, sample time.Duration) {
	g.latest = sample
	if g.smoothed == 0 {
		g.smoothed, g.variance, g.min, g.minAt = sample, sample/2, sample, now
		return
	}
	if sample <= g.min {
		g.min, g.minAt = sample, now
	}
	g.steady = g.steady || g.queueStands()
	g.variance += (max(g.smoothed-sample, sample-g.smoothed) - g.variance) / 4
	g.smoothed += (sample - g.smoothed) / 8
}

func (g *sliceGate) sampleRate(now time.Time, p *sentSlice) {
	m := p.mark
	if p.at.After(g.firstSent) {
		g.firstSent = p.at
	}
	limited := m.limited && !g.queueStands()
	if m.delivered >= g.roundEnd {
		g.endRound(limited)
	}
	interval := max(p.at.Sub(m.firstSent), now.Sub(m.deliveredAt))
	if interval <= 0 || interval < g.min/2 {
		return // acks came in a bunch
	}
	rate := float64(g.delivered-m.delivered) / interval.Seconds()
	if limited && rate <= g.rate {
		return
	}
	g.best[g.round%sliceRounds] = max(g.best[g.round%sliceRounds], rate)
	g.rate = max(g.rate, rate)
}

// endRound lets rates expire; rounds that the application limited do not age them.
func (g *sliceGate) endRound(limited bool) {
	g.roundEnd = g.delivered
	if limited {
		return
	}
	if g.rate > g.plateau*5/4 {
		g.plateau, g.flat = g.rate, 0
	} else if g.flat++; g.flat >= sliceFlatRounds {
		g.steady = true
	}
	g.round++
	g.best[g.round%sliceRounds] = 0
	g.rate = 0
	for _, rate := range g.best {
		g.rate = max(g.rate, rate)
	}
}

// drain sees to it that the minimum RTT is not one of long ago.
func (g *sliceGate) drain(now time.Time) {
	switch {
	case g.drainEnd.IsZero() && now.Sub(g.minAt) > sliceMinRTTLife:
		g.drainEnd, g.drainMin = now.Add(g.smoothed*3/2), g.latest
	case g.drainEnd.IsZero():
		return
	}
	g.drainMin = min(g.drainMin, g.latest)
	if !now.Before(g.drainEnd) {
		g.min, g.minAt, g.drainEnd = g.drainMin, now, time.Time{}
	}
}

// window is how many bytes may be in flight.
func (g *sliceGate) window() int {
	path := g.path
	if path == 0 {
		path = math.MaxInt32
	}
	bound := path
	switch {
	case g.rate == 0:
	case !g.drainEnd.IsZero():
		bound = bytesAt(g.rate, g.min*3/4)
	case !g.steady:
		bound = 2*bytesAt(g.rate, g.min) + sliceQueue
	default:
		bound = bytesAt(g.rate, g.min) + min(bytesAt(g.rate, sliceSlack), sliceQueue)
	}
	return max(leastSliceWindow, min(path, bound))
}

// estimate is the rate for how long a queue will take, 0 when nothing is known. Until the rate is steady, what the path's
// window promises counts when it is more.
func (g *sliceGate) estimate() float64 {
	if g.steady || g.path == 0 || g.smoothed == 0 {
		return g.rate
	}
	return max(g.rate, float64(g.path)/g.smoothed.Seconds())
}

// bytesAt is what comes at a rate in d, at most what fits an int of 32 bits even when doubled.
func bytesAt(rate float64, d time.Duration) int {
	return int(min(rate*d.Seconds(), math.MaxInt32/4))
}
