package recovery

import "time"

const (
	// drainPacket is the approximate size of a packet of bulk.
	drainPacket = 1200
	// drainShare is the part of what the path holds that bulk may have in flight during a drain.
	drainShare = 3. / 4
)

// A drain is a period in which bulk leaves part of the path unused, so that round trips show the
// path without a queue of bulk. It is zero if there's no drain.
type drain struct {
	end        time.Duration // never 0 during a drain
	windowFell bool          // it began because the gate's window kept falling
	minTrip    time.Duration // shortest round trip so far

	// Packets that were sent with no more in flight than the drain allows.
	trips   time.Duration // sum of their round trips
	packets int
}

func (d *drain) active() bool { return d.end != 0 }

// addTrip adds the round trip of the packet with this mark.
func (d *drain) addTrip(trip time.Duration, m *Mark) {
	d.minTrip = min(d.minTrip, trip)
	if m.drained {
		d.trips += trip
		d.packets++
	}
}
