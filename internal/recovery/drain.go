package recovery

import "time"

// A drain is a period in which bulk leaves part of the path unused, so that round trips show the
// path without a queue of bulk.
type drain struct {
	end     time.Duration // 0 if we aren't draining
	closing bool          // it began because the gate's window kept falling
	minTrip time.Duration // shortest round trip so far

	// Packets that were sent with no more in flight than the drain allows.
	trips   time.Duration // sum of their round trips
	packets int
}

// note adds the round trip of the packet with this mark.
func (d *drain) note(trip time.Duration, m *Mark) {
	d.minTrip = min(d.minTrip, trip)
	if m.drained {
		d.trips += trip
		d.packets++
	}
}
