package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// sliceGate is the gate for bulk by the machine's clock. Its round trips include what the peer waits with its acks, 2 ms at
// most.
type sliceGate struct {
	recovery.Gate
	epoch time.Time // when the first slice left
}

func (g *sliceGate) since(t time.Time) time.Duration { return t.Sub(g.epoch) }

// sent marks a slice that leaves while others have so many bytes in flight.
func (g *sliceGate) sent(now time.Time, p *sentSlice, others int) {
	if g.epoch.IsZero() {
		g.epoch = now
	}
	g.Bulk(g.since(now))
	p.mark = g.Sent(g.since(now), others)
}

// landed counts what arrived.
func (g *sliceGate) landed(now time.Time, p *sentSlice) { g.Acked(g.since(now), &p.mark, p.size) }

// measure takes what the newest slice of an ack, which left only once, tells of the path.
func (g *sliceGate) measure(now time.Time, p *sentSlice) {
	g.Update(g.since(now), now.Sub(p.at), 0)
	g.Measure(g.since(now), g.since(p.at), &p.mark)
}

// window is how many bytes may be in flight.
func (g *sliceGate) window() int { return g.Window(sliceDatagram) }
