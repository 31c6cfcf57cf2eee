package pace

import "time"

// Sample is what the owner keeps of each packet in flight and hands back when its fate is known.
type Sample struct {
	sent      instant // when it left
	delivered int64   // bytes delivered when it left
	limited   bool    // the path was not to be full: there was nothing to send, or a queue was to shrink
	resumed   bool    // the first after there was nothing to send
	held      bool    // the first after a window was full for so long that the path emptied
	round     uint8   // low bits of the number of the round in which it left
	look      uint32  // which look for more rate it was part of; 0 = none
}

// slowGaps late arrivals in a row are no stand: what a path gathers while it stands still comes at once.
const slowGaps = 3

// point is an instant of arrival, a grain long at most.
type point struct {
	from  instant // when the first packet came, by the receiver's clock
	at    instant // and the last
	bytes int64   // delivered until then, what arrived then included
	sent  instant // when the newest of them left
}

// delivery is the curve of what arrived, by the receiver's clock, so that neither held-back acks nor the way back blur it.
// Its slope between two instants of arrival is a rate; what arrived at the first of them does not count, so that packets
// that are delivered in clumps show the rate of the bottleneck behind which they were gathered.
type delivery struct {
	total     int64         // bytes delivered so far
	limited   int64         // packets that leave before total exceeds this are limited
	limitedAt instant       // latest arrival of a limited packet
	ranDry    bool          // there was nothing to send since the last packet left
	resumedAt instant       // latest arrival of a packet before which there was nothing to send
	full      bool          // the window has held packets back since the last one left
	heldAt    instant       // latest arrival of a packet that it had held back until the path was empty
	grain     time.Duration // arrivals within it are one instant
	curve     latest[point] // grains of a 64th of the base round trip make it reach back for four of these
	begin     int           // its first point since the path was empty
	stand     stand
}

func (d *delivery) point(i int) *point { return d.curve.at(i) }

// leave records the state in which a packet leaves; paused: none has left for long. Where the window made the pause the curve goes on: it
// may be all that ever makes one.
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

// arrive counts a packet; arrived 0 = unknown, which is as good as at the latest instant.
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
		if last := d.point(d.curve.next - 1); arrived <= last.from+d.grain {
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

// slope is a rate in bytes a second.
type slope struct {
	bytes   int
	took    time.Duration // at the receiver
	grown   time.Duration // by which the later packets took longer than the earlier ones
	sent    float64       // at which the same packets left
	arrival float64       // as it was at the receiver
	limited bool          // packets of a path that was not to be full are among it
	held    bool          // a full window left the path empty in it
	stood   bool          // the path stood still in it
}

// shown is what the path has shown to carry: at most what was sent.
func (s slope) shown() float64 { return min(s.arrival, s.sent) }

// steady tells whether packets have come for a span and the path never stood still in it for longer than gap.
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

// crawls tells whether all of the latest arrivals were late by more than gap: the path is slow, and does not stand still.
func (d *delivery) crawls(gap time.Duration) bool {
	for i := d.curve.next - slowGaps; i < d.curve.next; i++ {
		if i <= d.oldest() || d.late(i) <= gap {
			return false
		}
	}
	return true
}

// goesOn reports that the newest arrival ended a stand.
func (d *delivery) goesOn() bool {
	return d.curve.next > d.begin && d.stand.ended == d.point(d.curve.next-1).from
}

// late returns by how much longer an arrival took to follow the one before it than it took to leave after that.
func (d *delivery) late(i int) time.Duration {
	before, s := d.point(i-1), d.point(i)
	return s.from - before.at - (s.sent - before.sent)
}

// oldest is the first point of the curve that counts.
func (d *delivery) oldest() int { return max(d.begin, d.curve.next-kept) }

// flight returns the slope of what arrived since the path was empty, without a pause for want of something to send, and up to the first
// pause behind at least so many bytes. That there was a pause before, behind a transfer's header say, limits nothing of it. All that
// arrived counts those of its first instant too.
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

// beforePause returns the last point before a pause of the sender, behind first and at least so many bytes.
func (d *delivery) beforePause(first, least int, pause time.Duration) int {
	for i := first + 1; i < d.curve.next-1; i++ {
		if d.point(i+1).sent-d.point(i).sent > pause && d.point(i).bytes-d.point(first).bytes >= int64(least) {
			return i
		}
	}
	return d.curve.next - 1
}

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

// rate returns the slope over the last span, or little more. Not ok: too little has arrived.
func (d *delivery) rate(span time.Duration) (s slope, ok bool) { return d.rateOf(0, span) }

// rateOf returns the slope of so many bytes at least.
func (d *delivery) rateOf(bytes int64, span time.Duration) (s slope, ok bool) {
	for i := d.curve.next - 2; i >= d.oldest(); i-- {
		first, last := d.point(i), d.point(d.curve.next-1)
		if took := last.at - first.at; took >= span && took > 0 && last.bytes-first.bytes >= bytes {
			return d.slope(first, last), true
		}
	}
	return slope{}, false
}
