package recovery

import "time"

// drain is a period in which bulk leaves a part of the path's capacity unused,
// so that round trips show the path without a queue of bulk.
type drain struct {
	end     time.Duration // 0 = there is no drain
	closing bool          // it began because the gate closes
	least   time.Duration // the least round trip in it
	// Sum of the round trips of packets sent during the drain while no more was
	// in flight than it allows.
	trips   time.Duration
	packets int // how many round trips are in trips
}

// note adds the round trip of the packet with mark m.
func (d *drain) note(trip time.Duration, m *Mark) {
	d.least = min(d.least, trip)
	if m.drained {
		d.trips += trip
		d.packets++
	}
}
