package recovery

import "time"

const (
	packetThreshold = 3                // kPacketThreshold (RFC 9002, section 6.1.1)
	granularity     = time.Millisecond // kGranularity (RFC 9002, section 6.1.2)
	// Maximum number of spurious losses that widen the time threshold. Three make it twice
	// the RTT.
	maxWidened = 3
	// maxLate is the largest time threshold, in round trips, that a late packet can cause.
	// If every other packet is late by a round trip in either direction, its ack arrives
	// after three.
	maxLate = 4
	// lateLife is the minimum time for which a late packet counts.
	lateLife = 10 * time.Second
)

// Losses decides which packets are lost because later ones were acked (RFC 9002, section
// 6.1).
//
// A packet is lost if the third packet after it or a later one was acked. It is also lost
// if any later one was acked and 9/8 of the round trip have passed since it was sent.
//
// The first spurious loss disables the packet threshold. Each spurious loss doubles the
// part of the time threshold beyond the round trip. If that is still too short, the
// threshold is 9/8 of the longest time that a late packet took.
type Losses struct {
	Largest uint64        // one above the largest acked number
	Next    time.Duration // when the next packet is lost by time; 0 = none is

	widened int           // number of spurious losses, at most maxWidened
	late    longest       // times from sending to ack of spuriously lost packets
	delay   time.Duration // the time threshold that Begin computed
}

// Spurious is called when a packet declared lost was acked after all. Packets may then be
// later than the thresholds allow. took is the time from its sending to its ack; 0 means
// unknown.
func (l *Losses) Spurious(now, took time.Duration) {
	l.widened = min(l.widened+1, maxWidened)
	l.late.add(now, took)
}

// Begin begins a check of the packets in flight that were sent before an acked packet. The
// owner then calls Lost for each of them.
func (l *Losses) Begin(now, rtt time.Duration) {
	late := l.late.value(now)
	l.Next = 0
	l.delay = max(rtt+rtt<<l.widened/8, min(late+late/8, maxLate*rtt), granularity)
}

// Lost reports whether a packet in flight is lost at now. If not, it lowers Next to the
// time when the packet will be lost.
func (l *Losses) Lost(now time.Duration, number uint64, sent time.Duration) bool {
	due := sent + l.delay
	if due <= now || l.widened == 0 && number+packetThreshold < l.Largest {
		return true
	}
	if l.Next == 0 || due < l.Next {
		l.Next = due
	}
	return false
}

// longest is the maximum of the durations added lately. Each counts for at least lateLife
// and at most twice that.
type longest struct {
	since          time.Duration // beginning of the current period
	recent, before time.Duration // maximum of the current period and of the previous one
}

func (l *longest) add(now, d time.Duration) {
	l.age(now)
	l.recent = max(l.recent, d)
}

func (l *longest) value(now time.Duration) time.Duration {
	l.age(now)
	return max(l.recent, l.before)
}

// age begins a new period if the current one has lasted for lateLife.
func (l *longest) age(now time.Duration) {
	passed := now - l.since
	switch {
	case l.recent == 0 && l.before == 0, passed >= 2*lateLife:
		*l = longest{since: now}
	case passed >= lateLife:
		*l = longest{since: now, before: l.recent}
	}
}
