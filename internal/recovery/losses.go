package recovery

import "time"

const (
	packetThreshold = 3                // kPacketThreshold (RFC 9002, section 6.1.1)
	granularity     = time.Millisecond // kGranularity (RFC 9002, section 6.1.2)
	maxWidened      = 3                // how many spurious losses widen the time threshold: to twice the RTT
	// mostLate is the largest time threshold, in round trips, that a late packet can make: where every other packet is late by a round trip
	// on either way, its ack comes after three.
	mostLate = 4
	// lateLife is how long a late packet counts, at least.
	lateLife = 10 * time.Second
)

// Losses decides which packets are lost because later ones were acked (RFC 9002, section 6.1). A packet is lost once the third after it,
// or a later one, was acked; or once any later one was acked and 9/8 of the round trip have passed since it left. The first spurious
// loss turns the packet threshold off, and each doubles what the time threshold allows beyond the round trip. Where that is still too
// little, the threshold is 9/8 of the longest that a late packet took.
type Losses struct {
	Largest uint64        // one above the largest acked; other packets can be lost by time only
	Next    time.Duration // when the next packet counts as lost by time; 0 = none does

	widened int           // spurious losses, at most maxWidened
	late    longest       // how long after they left spuriously lost packets were acked
	delay   time.Duration // the time threshold of this look
}

// Spurious learns from a lost packet that arrived that packets are later than the thresholds allow. It was acked took after it left; 0 =
// unknown.
func (l *Losses) Spurious(now, took time.Duration) {
	l.widened = min(l.widened+1, maxWidened)
	l.late.add(now, took)
}

// Begin begins a look at the packets in flight that left before one that arrived. The owner then calls Lost for each.
func (l *Losses) Begin(now, rtt time.Duration) {
	late := l.late.value(now)
	l.Next, l.delay = 0, max(rtt+rtt<<l.widened/8, min(late+late/8, mostLate*rtt), granularity)
}

// Lost reports whether a packet in flight is lost by now; if not, it notes in Next when it will be.
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

// longest is the greatest of the durations that were added lately: for at least lateLife, and at most twice that.
type longest struct {
	since          time.Duration // when the period of recent began
	recent, before time.Duration // the greatest of this period, and of the one before
}

func (l *longest) add(now, d time.Duration) {
	l.age(now)
	l.recent = max(l.recent, d)
}

func (l *longest) value(now time.Duration) time.Duration {
	l.age(now)
	return max(l.recent, l.before)
}

// age begins a new period when this one has lasted for lateLife.
func (l *longest) age(now time.Duration) {
	switch passed := now - l.since; {
	case l.recent == 0 && l.before == 0, passed >= 2*lateLife:
		*l = longest{since: now}
	case passed >= lateLife:
		*l = longest{since: now, before: l.recent}
	}
}
