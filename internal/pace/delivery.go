package pace

import "time"

// A Sample is the record of one packet in flight. Sent makes it. The owner keeps it, and
// passes it back when the packet's fate is known.
type Sample struct {
	sent      instant // send time
	delivered int64   // delivery.total when it was sent
	// The sender did not try to fill the path: it had nothing to send, or wanted a queue
	// to shrink (BBR: app-limited).
	limited bool
	resumed bool   // first packet after there was nothing to send
	held    bool   // first packet after a full window held packets back until nothing was in flight
	round   uint8  // low bits of the number of the round in which it was sent
	number  uint16 // low bits of the packet's number
	look    uint16 // low bits of the number of the look in which it was sent; 0 = none
}

// slowGaps is the number of consecutive late arrivals that show a slow path rather than a
// stand. After a stand only the first packet is late, because those behind it arrive at
// once.
const slowGaps = 3

// A point is one or more arrivals within a grain, which count as one.
type point struct {
	from  instant // arrival of the first packet, by peerClock
	at    instant // arrival of the last packet, by peerClock
	bytes int64   // delivery.total then, including these packets
	sent  instant // send time of the newest of these packets
}

// A delivery is the curve of bytes that arrived over time. Arrival times are the
// receiver's, as corrected by peerClock, so neither held-back acks nor the way back blur
// the curve (compare delivery rate sampling in draft-ietf-ccwg-bbr).
//
// The slope between two points is a rate. The bytes of the first point do not count, so
// packets that arrive in clumps show the rate of the bottleneck at which they were
// gathered.
type delivery struct {
	total     int64         // bytes delivered so far, including lost packets that count as passed
	limited   int64         // packets sent while total is below this are limited
	limitedAt instant       // latest arrival of a limited packet
	ranDry    bool          // there was nothing to send since the last packet was sent
	resumedAt instant       // latest arrival of a resumed packet
	full      bool          // the window held packets back since the last one was sent
	heldAt    instant       // latest arrival of a held packet
	grain     time.Duration // arrivals within this time are one point; set by learn
	// Reaches back at least four round trips, as a grain is a 64th of the base round trip.
	curve ring[point]
	begin int // number of the first point since nothing was in flight
	stand stand
}

// point returns point i, which must still be in the curve.
func (d *delivery) point(i int) *point { return d.curve.at(i) }

// packetSent returns the Sample of a packet sent at t. paused is true if no packet was
// sent for a round trip.
//
// If the window made the pause, the curve continues, because over a short path with a
// small window every flight makes such a pause.
func (d *delivery) packetSent(t instant, inFlight int, paused bool) Sample {
	s := Sample{sent: t, delivered: d.total, limited: d.limited > d.total, resumed: d.ranDry}
	switch emptied := inFlight == 0 || paused; {
	case emptied && d.full && !d.ranDry:
		s.held = true
	case emptied:
		d.begin = d.curve.next
	}
	d.ranDry = false
	d.full = false
	return s
}

// arrive adds a packet that arrived; arrived is 0 if the time is unknown.
//
// A packet without a time joins the latest point if it was sent before that point's
// newest packet, which must have overtaken it. If it was sent later, it counts with the
// next point. A feedback may have no room for all times of a clump, and omits those of
// the first packets.
func (d *delivery) arrive(s Sample, size int, arrived instant) {
	d.total += int64(size)
	if s.limited {
		d.limitedAt = max(d.limitedAt, arrived)
	}
	if s.resumed {
		d.resumedAt = max(d.resumedAt, arrived)
	}
	if s.held {
		d.heldAt = max(d.heldAt, arrived)
	}
	if d.curve.next > d.begin {
		last := d.point(d.curve.next - 1)
		if arrived == 0 && s.sent > last.sent {
			return
		}
		if arrived <= last.from+d.grain {
			*last = point{last.from, max(last.at, arrived), d.total, max(last.sent, s.sent)}
			return
		}
	}
	if arrived != 0 {
		d.curve.add(point{arrived, arrived, d.total, s.sent})
		if i := d.curve.next - 1; i > d.oldest() && s.sent >= d.point(i-1).sent {
			d.stand.note(arrived, d.late(i))
		}
	}
}

// measureAnew starts the curve again, because the peer's clock was corrected. When it did
// not, after a clock had jumped ahead by a minute, everything that arrived in the next
// minute counted as one point.
func (d *delivery) measureAnew() {
	d.begin, d.limitedAt, d.resumedAt, d.heldAt = d.curve.next, 0, 0, 0
	d.stand = stand{threshold: d.stand.threshold}
}

// A slope is the rate of the packets between two points of the curve.
type slope struct {
	bytes   int
	took    time.Duration // time from the first arrival to the last
	grown   time.Duration // excess of that time over the time it took to send them
	sent    float64       // rate at which they were sent, in bytes per second
	arrival float64       // rate at which they arrived, in bytes per second
	limited bool          // some of them were limited
	held    bool          // some of them were held
	stood   bool          // the path stood still meanwhile
}

// shown returns the rate that the path was shown to carry: no more than was sent.
func (s slope) shown() float64 { return min(s.arrival, s.sent) }

// steady reports whether packets arrived throughout span without a pause of the path
// longer than gap.
func (d *delivery) steady(span, gap time.Duration) bool {
	for i := d.curve.next - 1; i > d.oldest(); i-- {
		if d.late(i) > gap {
			return d.crawls(gap)
		}
		if d.point(d.curve.next-1).at-d.point(i-1).at >= span {
			return true
		}
	}
	return false
}

// crawls reports whether the last slowGaps arrivals were all late by more than gap. Then
// the path is slow, and does not stand still.
func (d *delivery) crawls(gap time.Duration) bool {
	for i := d.curve.next - slowGaps; i < d.curve.next; i++ {
		if i <= d.oldest() || d.late(i) <= gap {
			return false
		}
	}
	return true
}

// standEnded reports whether the newest arrival ended a stand.
func (d *delivery) standEnded() bool {
	return d.curve.next > d.begin && d.stand.ended == d.point(d.curve.next-1).from
}

// late returns the lateness of point i: the time between its arrival and that of the
// point before it, minus the time between the sending of their packets.
func (d *delivery) late(i int) time.Duration {
	before, s := d.point(i-1), d.point(i)
	return s.from - before.at - (s.sent - before.sent)
}

// oldest returns the number of the oldest point that is still in the curve and counts.
func (d *delivery) oldest() int { return max(d.begin, d.curve.next-ringSize) }

// flight returns the slope of the newest flight: the packets that arrived since the
// sender last had nothing to send.
//
// The flight ends where the sender first paused after it had sent minBytes. An earlier
// pause, such as the one after a transfer's header, is part of the flight.
//
// all is the number of bytes of the flight that arrived, including those of its first
// point, which the slope omits.
func (d *delivery) flight(minBytes int, pause time.Duration) (s slope, all int, ok bool) {
	first := d.curve.next - 1
	for first > d.oldest() && d.point(first-1).at > d.resumedAt {
		first--
	}
	if d.curve.next-first < 2 {
		return slope{}, 0, false
	}
	all = int(d.total)
	if first > 0 && d.curve.next-first < ringSize {
		all -= int(d.point(first - 1).bytes)
	}
	return d.slope(d.point(first), d.point(d.beforePause(first, minBytes, pause))), all, true
}

// beforePause returns the number of the last point before the sender's first pause after
// which minBytes or more had arrived since the point first. If there was no such pause,
// it returns the number of the newest point.
func (d *delivery) beforePause(first, minBytes int, pause time.Duration) int {
	for i := first + 1; i < d.curve.next-1; i++ {
		arrived := d.point(i).bytes - d.point(first).bytes
		if d.point(i+1).sent-d.point(i).sent > pause && arrived >= int64(minBytes) {
			return i
		}
	}
	return d.curve.next - 1
}

// slope returns the slope between two points.
func (d *delivery) slope(first, last *point) slope {
	bytes := float64(last.bytes - first.bytes)
	took := max(last.at-first.at, 1)
	sent := max(last.sent-first.sent, 1)
	return slope{
		bytes: int(last.bytes - first.bytes),
		took:  took, grown: took - sent,
		arrival: bytes / took.Seconds(),
		sent:    bytes / sent.Seconds(),
		limited: d.limitedAt > first.at,
		held:    d.heldAt > first.at,
		stood:   d.stand.ended > first.at,
	}
}

// rate returns the slope over the last span, or a little more. ok is false if the curve
// does not reach back that far.
func (d *delivery) rate(span time.Duration) (s slope, ok bool) { return d.rateOf(0, span) }

// rateOf is like rate, but covers at least the given number of bytes.
func (d *delivery) rateOf(bytes int64, span time.Duration) (s slope, ok bool) {
	for i := d.curve.next - 2; i >= d.oldest(); i-- {
		first, last := d.point(i), d.point(d.curve.next-1)
		if took := last.at - first.at; took >= span && took > 0 && last.bytes-first.bytes >= bytes {
			return d.slope(first, last), true
		}
	}
	return slope{}, false
}
