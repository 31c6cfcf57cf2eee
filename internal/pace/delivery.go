package pace

import "time"

// A Sample is what we remember of a packet in flight. [Controller.Sent] returns it, and the owner
// passes it back when the packet's fate is known.
type Sample struct {
	sent      instant // when it was sent
	delivered int64   // delivery.total at that time
	limited   bool    // we weren't trying to fill the path then ("app-limited" in BBR)
	resumed   bool    // first packet after there was nothing to send
	held      bool    // first packet after a full window stopped us until all fates were known
	round     uint8   // round in which it was sent, low bits of its number
	number    uint16  // low bits of the packet's number
	look      uint16  // number of the look in which it was sent, or 1 more if in its payback; 0 = neither
}

// slowGaps is how many late arrivals in a row show that the path is slow, rather than that it stood
// still for a moment. After a stand only the first packet is late, because those behind it arrive
// with it.
const slowGaps = 3

// grainsPerTrip divides a round trip into grains, the resolution of the curve, so that ringSize
// points cover at least four round trips.
const grainsPerTrip = 64

// A point of the curve stands for one or more packets that arrived within a grain.
type point struct {
	from  instant // arrival of the first packet, by peerClock
	at    instant // arrival of the last packet, by peerClock
	bytes int64   // delivery.total after the last packet
	sent  instant // when the newest of these packets was sent
}

// A delivery is a delivery rate sampler (compare draft-ietf-ccwg-bbr). It records how many bytes
// arrived over time, as a curve whose slope between two points is the rate.
//
// Arrival times are the receiver's, corrected by peerClock, so delayed acks don't distort the
// curve. The bytes of a slope's first point don't count, since we don't know how long they took to
// arrive. Packets that arrive in clumps therefore show the rate of the link that gathered them.
type delivery struct {
	total int64 // bytes delivered so far, including losses that count as delivered

	// Samples to distrust. See Sample for the meaning of limited, resumed and held.
	limited   int64   // packets sent while total is below this are limited
	limitedAt instant // latest arrival of a limited packet
	ranDry    bool    // there was nothing to send after the last packet
	resumedAt instant // latest arrival of a resumed packet
	full      bool    // the window was full after the last packet
	heldAt    instant // latest arrival of a held packet

	grain time.Duration // arrivals within this time form one point; set by Controller.learn
	curve ring[point]   // covers at least four round trips; see grainsPerTrip
	begin int           // number of the first point since nothing was in flight
	stand stand
}

// point returns point i, which must still be in the curve.
func (d *delivery) point(i int) *point { return d.curve.at(i) }

// packetSent returns the Sample of a packet sent at t. paused is set if no packet was sent in the
// round trip before t.
func (d *delivery) packetSent(t instant, inFlight int, paused bool) Sample {
	s := Sample{sent: t, delivered: d.total, limited: d.limited > d.total, resumed: d.ranDry}
	if inFlight == 0 || paused {
		s.held = d.full && !d.ranDry
		if !s.held {
			// A pause that a full window caused doesn't start a new curve, because a small
			// window over a short path causes one after every flight.
			d.begin = d.curve.next
		}
	}
	d.ranDry = false
	d.full = false
	return s
}

// arrive adds a packet that arrived. arrived is 0 if the time is unknown, because a report that has
// no room for all the arrival times of a clump leaves out those of the first packets.
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
			// It belongs to a later point. Its bytes will count with the next one.
			return
		}
		// Without a time, it was overtaken by the point's newest packet, so it joins that point.
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

// measureAnew starts a new curve after the peer's clock was corrected. If the old curve went on
// after a clock jumped ahead by a minute, everything that arrives in the next minute would form a
// single point.
func (d *delivery) measureAnew() {
	d.begin = d.curve.next
	d.limitedAt = 0
	d.resumedAt = 0
	d.heldAt = 0
	d.stand = stand{threshold: d.stand.threshold}
}

// A slope is the rate of the packets between two points of the curve.
type slope struct {
	bytes   int
	took    time.Duration // from the first arrival to the last
	grown   time.Duration // by how much that exceeds the time it took to send them
	sent    float64       // rate at which they were sent, in bytes per second
	arrival float64       // rate at which they arrived, in bytes per second
	limited bool          // some of them were limited
	held    bool          // some of them were held
	stood   bool          // the path stood still during it
}

// shown returns the rate that the path proved to carry, which can't exceed the rate at which we
// sent.
func (s slope) shown() float64 { return min(s.arrival, s.sent) }

// steady reports whether packets arrived throughout the last span without the path causing a gap
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

// crawls reports whether the last slowGaps arrivals were all late by more than gap, which means
// that the path is slow rather than standing still.
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

// late returns how late point i was compared with the one before it, which is the time between
// their arrivals less the time between their sending.
func (d *delivery) late(i int) time.Duration {
	before, s := d.point(i-1), d.point(i)
	return s.from - before.at - (s.sent - before.sent)
}

// free frees the curve's memory.
func (d *delivery) free() {
	d.curve = ring[point]{}
	d.begin = 0
}

// oldest returns the number of the oldest point that is still in the curve and counts.
func (d *delivery) oldest() int { return max(d.begin, d.curve.next-ringSize) }

// flight returns the slope of the newest flight, which begins where we last had nothing to send,
// and ends at the first pause after minBytes. (It doesn't end at an earlier pause, such as the one
// after a transfer's header.)
//
// all is how many bytes of the flight arrived, including those of the first point, which the slope
// omits.
func (d *delivery) flight(minBytes int, pause time.Duration) (s slope, all int, ok bool) {
	first := d.resumed()
	if d.curve.next-first < 2 {
		return slope{}, 0, false
	}
	all = int(d.total)
	if first > 0 && d.curve.next-first < ringSize {
		all -= int(d.point(first - 1).bytes)
	}
	return d.slope(d.point(first), d.point(d.beforePause(first, minBytes, pause))), all, true
}

// resumed returns the number of the first point since we last had nothing to send.
func (d *delivery) resumed() int {
	first := d.curve.next - 1
	for first > d.oldest() && d.point(first-1).at > d.resumedAt {
		first--
	}
	return first
}

// opening returns the slope of the packets of the newest flight that were sent until last, and the
// number of its points. That is 0 until the last of them, or one sent later, has arrived.
func (d *delivery) opening(last instant) (s slope, points int) {
	newest := d.curve.next - 1
	if newest < d.oldest() || d.point(newest).sent < last {
		return slope{}, 0
	}
	first := d.resumed()
	end := first
	for end < newest && d.point(end+1).sent <= last {
		end++
	}
	return d.slope(d.point(first), d.point(end)), end - first + 1
}

// beforePause returns the number of the last point before our first pause in sending, not counting
// pauses within minBytes of the point first. Without such a pause, it returns the number of the
// newest point.
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
		bytes:   int(last.bytes - first.bytes),
		took:    took,
		grown:   took - sent,
		arrival: bytes / took.Seconds(),
		sent:    bytes / sent.Seconds(),
		limited: d.limitedAt > first.at,
		held:    d.heldAt > first.at,
		stood:   d.stand.ended > first.at,
	}
}

// rate returns the slope over the last span or a little more. ok is false if the curve doesn't go
// back that far.
func (d *delivery) rate(span time.Duration) (s slope, ok bool) { return d.rateOf(0, span) }

// rateOf is like rate but also covers at least the given number of bytes.
func (d *delivery) rateOf(bytes int64, span time.Duration) (s slope, ok bool) {
	for i := d.curve.next - 2; i >= d.oldest(); i-- {
		first, last := d.point(i), d.point(d.curve.next-1)
		if took := last.at - first.at; took >= span && took > 0 && last.bytes-first.bytes >= bytes {
			return d.slope(first, last), true
		}
	}
	return slope{}, false
}
