package recovery

import "time"

// A drain is a period in which bulk uses only part of the path's capacity, so that round
// trips show the path without a queue of bulk.
type drain struct {
	end     time.Duration // 0 = there is no drain
	closing bool          // it began because the gate's limit was falling
	minTrip time.Duration // minimum round trip during the drain
	// Sum of the round trips of packets sent during the drain while no more was in flight
	// than it allows.
	trips   time.Duration
	packets int // number of round trips in trips
}

// note adds the round trip of the packet with mark m.
func (d *drain) note(trip time.Duration, m *Mark) {
	d.minTrip = min(d.minTrip, trip)
	if m.drained {
		d.trips += trip
		d.packets++
	}
}
