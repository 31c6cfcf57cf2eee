package pace

import "time"

// A Sample is the record that the owner keeps for each packet in flight, and
// passes back when the packet's fate is known. Sent makes it.
type Sample struct {
	sent      instant // when the packet was sent
	delivered int64   // delivery.total when it was sent
	// The sender did not try to fill the path: it had nothing to send, or
	// wanted a queue to shrink (BBR: app-limited).
	limited bool
	resumed bool   // it is the first packet after there was nothing to send
	held    bool   // it is the first packet after a full window held packets back until nothing was in flight
	round   uint8  // low bits of the number of the round in which it was sent
	number  uint16 // low bits of the packet's number
	look    uint16 // low bits of the number of the look in which it was sent; 0 = none
}

// slowGaps is how many late arrivals in a row show that the path is slow and does not stand
// still: after a stand only the first packet is late, because those behind it arrive at once.
const slowGaps = 3

// A point is one or several arrivals that count as one, because they were within a grain.
type point struct {
	from  instant // when the first packet arrived, by peerClock
	at    instant // when the last packet arrived, by peerClock
	bytes int64   // delivery.total then, including these packets
	sent  instant // when the newest of these packets was sent
}

// A delivery is the curve of bytes that arrived, by the receiver's clock as
// peerClock corrects it, so that neither held-back acks nor the way back blur it
// (compare delivery rate sampling in draft-ietf-ccwg-bbr). Its slope between two
// points is a rate. The bytes of the first point do not count, so packets that
// arrive in clumps show the rate of the bottleneck at which they were gathered.
type delivery struct {
	total     int64         // bytes delivered so far, including lost packets that count as passed
	limited   int64         // packets sent while total is below this are limited
	limitedAt instant       // latest arrival of a limited packet
	ranDry    bool          // there has been nothing to send since the last packet was sent
	resumedAt instant       // latest arrival of a resumed packet
	full      bool          // the window has held packets back since the last one was sent
	heldAt    instant       // latest arrival of a held packet
	grain     time.Duration // arrivals within this time are one point; set by learn
	curve     latest[point] // with grains of a 64th of the base round trip it reaches back at least four round trips
	begin     int           // number of the first point since nothing was in flight
	stand     stand
}

// point returns point i, which must still be kept.
func (d *delivery) point(i int) *point { return d.curve.at(i) }

// leave returns the Sample of a packet that is sent at t. paused means that none
// was sent for a round trip. If the window made the pause, the curve continues:
// over a short path with a small window every flight makes such a pause.
func (d *delivery) leave(t instant, inFlight int, paused bool) Sample {
	s := Sample{sent: t, delivered: d.total, limited: d.limited > d.total, resumed: d.ranDry}
	switch emptied := inFlight == 0 || paused; {
	case emptied && d.full && !d.ranDry:
		s.held = true
	case emptied:
		d.begin = d.curve.next
	}
	d.ranDry, d.full = false, false
	return s
}

// arrive adds a packet that arrived; arrived is 0 if the time is unknown. Such a packet joins
// the latest point if it was sent before the newest packet of that point, which has then
// overtaken it. If it was sent later it counts with the next point: if packets arrived in a
// clump, a feedback may have no room for all of their times, and leaves out those of the first.
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

// measureAnew starts the curve again, because the peer's clock has been
// corrected. When it did not, after a clock had jumped ahead by a minute,
// everything that arrived in the next minute counted as one point.
func (d *delivery) measureAnew() {
	d.begin, d.limitedAt, d.resumedAt, d.heldAt = d.curve.next, 0, 0, 0
	d.stand = stand{least: d.stand.least}
}

// A slope is the rate of the packets between two points of the curve.
type slope struct {
	bytes   int
	took    time.Duration // how long the packets took to arrive
	grown   time.Duration // how much longer they took to arrive than to be sent
	sent    float64       // rate at which they were sent, in bytes a second
	arrival float64       // rate at which they arrived, in bytes a second
	limited bool          // some of them were limited
	held    bool          // some of them were held
	stood   bool          // the path stood still meanwhile
}

// shown returns the rate that the path has shown it can carry: no more than was sent.
func (s slope) shown() float64 { return min(s.arrival, s.sent) }

// steady reports whether packets have arrived throughout span without a pause
// of the path longer than gap.
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

// crawls reports whether the last slowGaps arrivals were all late by more than
// gap: then the path is slow, and does not stand still.
func (d *delivery) crawls(gap time.Duration) bool {
	for i := d.curve.next - slowGaps; i < d.curve.next; i++ {
		if i <= d.oldest() || d.late(i) <= gap {
			return false
		}
	}
	return true
}

// standEnded reports whether the newest arrival has ended a stand.
func (d *delivery) standEnded() bool {
	return d.curve.next > d.begin && d.stand.ended == d.point(d.curve.next-1).from
}

// late returns how much longer the time between the arrivals of point i and the
// point before it was than the time between the sending of their packets.
func (d *delivery) late(i int) time.Duration {
	before, s := d.point(i-1), d.point(i)
	return s.from - before.at - (s.sent - before.sent)
}

// oldest returns the number of the first point that is kept and counts.
func (d *delivery) oldest() int { return max(d.begin, d.curve.next-kept) }

// flight returns the slope of the newest flight: of the packets that arrived since
// the sender last had nothing to send. The flight ends where the sender first paused
// after it had sent at least least bytes; a pause before that, such as the one after
// a transfer's header, is part of the flight. all is how many bytes of the flight
// have arrived, including those of its first point, which the slope leaves out.
func (d *delivery) flight(least int, pause time.Duration) (s slope, all int, ok bool) {
	first := d.curve.next - 1
	for first > d.oldest() && d.point(first-1).at > d.resumedAt {
		first--
	}
	if d.curve.next-first < 2 {
		return slope{}, 0, false
	}
	all = int(d.total)
	if first > 0 && d.curve.next-first < kept {
		all -= int(d.point(first - 1).bytes)
	}
	return d.slope(d.point(first), d.point(d.beforePause(first, least, pause))), all, true
}

// beforePause returns the number of the last point before the sender's first
// pause after which least bytes or more had arrived since the point first, or
// the number of the newest point if there was no such pause.
func (d *delivery) beforePause(first, least int, pause time.Duration) int {
	for i := first + 1; i < d.curve.next-1; i++ {
		if d.point(i+1).sent-d.point(i).sent > pause && d.point(i).bytes-d.point(first).bytes >= int64(least) {
			return i
		}
	}
	return d.curve.next - 1
}

// slope returns the slope between two points.
func (d *delivery) slope(first, last *point) slope {
	bytes, took, sent := float64(last.bytes-first.bytes), max(last.at-first.at, 1), max(last.sent-first.sent, 1)
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

// rate returns the slope over the last span, or a little more. ok is false if
// the curve does not reach back so far.
func (d *delivery) rate(span time.Duration) (s slope, ok bool) { return d.rateOf(0, span) }

// rateOf is like rate, over at least so many bytes.
func (d *delivery) rateOf(bytes int64, span time.Duration) (s slope, ok bool) {
	for i := d.curve.next - 2; i >= d.oldest(); i-- {
		first, last := d.point(i), d.point(d.curve.next-1)
		if took := last.at - first.at; took >= span && took > 0 && last.bytes-first.bytes >= bytes {
			return d.slope(first, last), true
		}
	}
	return slope{}, false
}
