package pace

import "time"

// Sample is what the owner keeps of each packet in flight and hands back when its fate is known.
type Sample struct {
	sent      instant // when it left
	opened    instant // when the packet left whose arrival was the last one known then
	arrived   instant // that arrival, by the receiver's clock; 0 = none, the path was empty
	delivered int64   // bytes delivered when it left
	limited   bool    // the path was not full because there was nothing to send
	look      uint32  // which look for more rate it was part of; 0 = none
}

// delivery measures how fast packets arrive (draft-ietf-ccwg-bbr, 4.1), with the receiver's arrival times in place of
// those of the acks, so that neither held-back acks nor the way back blur it.
type delivery struct {
	total   int64   // bytes delivered so far
	opened  instant // when the newest delivered packet left
	arrived instant // latest arrival; 0 = none since the path was empty
	limited int64   // packets that leave before total exceeds this are limited
}

// leave records the state in which a packet leaves.
func (d *delivery) leave(t instant, inFlight int) Sample {
	if inFlight == 0 {
		d.opened, d.arrived = t, 0
	}
	return Sample{sent: t, opened: d.opened, arrived: d.arrived, delivered: d.total, limited: d.limited > d.total}
}

// arrive counts a packet.
func (d *delivery) arrive(s Sample, size int, arrived instant) {
	d.total += int64(size)
	d.opened = max(d.opened, s.sent)
	d.arrived = max(d.arrived, arrived)
}

// rate returns the rate at which packets arrived while the packet of s was under way, in bytes a second: as a sample of
// the path, which is at most what was sent, and as it was at the receiver. Not ok: s tells too little.
//
// A path that was empty when it left has no arrival to count from: least, the least delay between the two clocks, gives
// the first packet's, and that packet does not count, for n packets are n-1 distances apart.
func (d *delivery) rate(s Sample, least, shortest time.Duration, packet int) (sample, arrival float64, ok bool) {
	from, bytes := s.arrived, d.total-s.delivered
	if from == 0 {
		from = s.opened + least
		bytes -= int64(packet)
	}
	took := d.arrived - from
	if took < shortest || took <= 0 || bytes <= 0 {
		return 0, 0, false
	}
	arrival = float64(bytes) / took.Seconds()
	return min(arrival, float64(bytes)/max(s.sent-s.opened, 1).Seconds()), arrival, true
}
