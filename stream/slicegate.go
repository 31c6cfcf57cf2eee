package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

type rateMark = recovery.Mark

// sliceGate is recovery's gate for slices, by the machine's clock. It says how many bytes of them may be in flight.
type sliceGate struct {
	path int // the path's window in bytes, 0 = not told

	// The round trip, which includes what the peer waits with its acks, 2 ms at most; 0 = not known.
	smoothed, latest, min time.Duration

	gate  recovery.Gate
	epoch time.Time // when the first slice left
}

func (g *sliceGate) since(t time.Time) time.Duration { return t.Sub(g.epoch) }

// sent marks a slice that leaves while others have so many bytes in flight.
func (g *sliceGate) sent(now time.Time, p *sentSlice, others int) {
	if g.epoch.IsZero() {
		g.epoch = now
	}
	g.gate.Bulk(g.since(now))
	p.mark = g.gate.Sent(g.since(now), others)
}

// landed counts what arrived.
func (g *sliceGate) landed(now time.Time, p *sentSlice) { g.gate.Acked(g.since(now), &p.mark, p.size) }

// lost counts what is lost.
func (g *sliceGate) lost(p *sentSlice) { g.gate.Lost(&p.mark, p.size) }

// idle notes that there is nothing more to send with so many bytes in flight.
func (g *sliceGate) idle(inFlight int) { g.gate.Limited(inFlight) }

// measure takes what the newest slice of an ack, which left only once, tells of the path.
func (g *sliceGate) measure(now time.Time, p *sentSlice) {
	rtt := &g.gate.RTT
	rtt.Update(g.since(now), now.Sub(p.at), 0)
	g.gate.Measure(g.since(now), g.since(p.at), &p.mark)
	g.smoothed, g.latest, g.min = rtt.Smoothed, rtt.Latest, rtt.Min
}

// window is how many bytes may be in flight.
func (g *sliceGate) window() int {
	g.gate.PathWindow = g.path
	return g.gate.Window(sliceDatagram)
}

// estimate is the rate for how long a queue will take, 0 when nothing is known.
func (g *sliceGate) estimate() float64 {
	g.gate.PathWindow = g.path
	return g.gate.Estimate()
}

func bytesAt(rate float64, d time.Duration) int { return recovery.Bytes(rate, d) }
