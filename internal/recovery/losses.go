package recovery

import "time"

const (
	packetThreshold = 3                // kPacketThreshold (RFC 9002, section 6.1.1)
	granularity     = time.Millisecond // kGranularity (RFC 9002, section 6.1.2)
	// Most spurious losses that widen the time threshold: three make it twice the RTT.
	maxWidened = 3
	// mostLate is the largest time threshold, in round trips, that a late packet can cause: if
	// every other packet is late by a round trip in either direction, its ack arrives after three.
	mostLate = 4
	// lateLife is the least time for which a late packet counts.
	lateLife = 10 * time.Second
)

// Losses decides which packets are lost because later ones were acked (RFC 9002,
// section 6.1). A packet is lost if the third after it, or a later one, was acked,
// or if any later one was acked and 9/8 of the round trip have passed since it was
// sent. The first spurious loss disables the packet threshold, and each spurious
// loss doubles the part of the time threshold beyond the round trip. If that is
// still too short, the threshold is 9/8 of the longest time that a late packet took.
type Losses struct {
	Largest uint64        // one above the largest acked number; packets from there on can be lost by time only
	Next    time.Duration // when the next packet is lost by time; 0 = none is

	widened int           // number of spurious losses, at most maxWidened
	late    longest       // times from sending to ack of spuriously lost packets
	delay   time.Duration // the time threshold that Begin has computed
}

// Spurious is called when a lost packet was acked after all: packets may be later than
// the thresholds allow. took is the time from its sending to its ack; 0 = unknown.
func (l *Losses) Spurious(now, took time.Duration) {
	l.widened = min(l.widened+1, maxWidened)
	l.late.add(now, took)
}

// Begin begins a check of the packets in flight that were sent before an acked
// one. The owner then calls Lost for each.
func (l *Losses) Begin(now, rtt time.Duration) {
	late := l.late.value(now)
	l.Next, l.delay = 0, max(rtt+rtt<<l.widened/8, min(late+late/8, mostLate*rtt), granularity)
}

// Lost reports whether a packet in flight is lost at now. If not, it lowers
// Next to the time when it will be.
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

// longest is the greatest of the durations that were added lately: during at
// least lateLife, and at most twice that.
type longest struct {
	since          time.Duration // beginning of the period of recent
	recent, before time.Duration // greatest of this period, and of the one before
}

func (l *longest) add(now, d time.Duration) {
	l.age(now)
	l.recent = max(l.recent, d)
}

func (l *longest) value(now time.Duration) time.Duration {
	l.age(now)
	return max(l.recent, l.before)
}

// age begins a new period if this one has lasted for lateLife.
func (l *longest) age(now time.Duration) {
	switch passed := now - l.since; {
	case l.recent == 0 && l.before == 0, passed >= 2*lateLife:
		*l = longest{since: now}
	case passed >= lateLife:
		*l = longest{since: now, before: l.recent}
	}
}
