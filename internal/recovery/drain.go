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
