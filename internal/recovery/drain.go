package recovery

import "time"

// drain is a time in which bulk leaves a part of the path empty, so that round trips show the path without a queue of bulk's.
type drain struct {
	end     time.Duration // 0 = none goes on
	closing bool          // it began because the gate closes
	least   time.Duration // the least round trip in it
	trips   time.Duration // the sum of the round trips of packets that left in it, when no more was in flight than it allows
	packets int           // how many these were
}

// note takes the round trip of the packet of m.
func (d *drain) note(trip time.Duration, m *Mark) {
	d.least = min(d.least, trip)
	if m.drained {
		d.trips += trip
		d.packets++
	}
}

// wantsDrain reports whether a drain should begin.
func (g *Gate) wantsDrain(now time.Duration) bool {
	return g.Known() && (now-g.minAt > minRTTLifetime || g.stood >= standBatches || g.closes())
}

// closes reports whether the rate falls while the gate, and not the path's window, is what bounds it. Round trips are then longer than the gate
// counts with, and each window carries less than the one before: jitter or clumps have begun, or others fill a queue. Up to slack and a quarter of
// the least round trip more does not show as a queue.
func (g *Gate) closes() bool {
	own := g.rate.value * (g.Min + g.jitter() + slack).Seconds()
	return g.steady && g.rate.value < g.peak*fallen && (g.PathWindow == 0 || own < float64(g.PathWindow))
}

func (g *Gate) beginDrain(now time.Duration) {
	g.drain = drain{end: now + g.Smoothed*3/2, closing: g.closes(), least: g.Adjusted}
	if g.shows(g.Recent) {
		g.rate.renew() // the path was the limit, and perhaps has become slower: what fitted it before would not drain
	}
}

// endDrain ends a drain when it is time, and learns from it how long round trips are.
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
	} // else it is perhaps a queue of ours, of no more than may always be in flight
	if d.packets > 0 {
		g.excess = max(0, d.trips/time.Duration(d.packets)-g.Min-g.undrained())
	}
}

// undrained returns how long leastPackets take, which are in flight however long a queue drains.
func (g *Gate) undrained() time.Duration {
	return time.Duration(min(leastPackets*drainPacket/g.rate.value, 3600) * float64(time.Second)) // an hour while no rate is known
}
