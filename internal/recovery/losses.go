package recovery

import "time"

const (
	packetThreshold = 3                // RFC 9002: kPacketThreshold
	granularity     = time.Millisecond // RFC 9002: kGranularity
	maxWidened      = 3                // the time threshold is at most twice the RTT, by what is learnt of single losses
	// mostLate bounds what one packet that was late makes of it, in round trips: where every other packet is late by one, on either way, its
	// ack comes after three.
	mostLate = 4
	// lateLife is for how long a late packet is reckoned with, at least.
	lateLife = 10 * time.Second
)

// Losses decides which packets are lost because later ones were acked (RFC 9002, section 6.1). A packet is given up once
// the third after it was acked, or any later one and 9/8 of the round trip have passed since it left. The first loss that
// was none turns the packet threshold off, and each doubles what the time threshold allows beyond the round trip; where that is still too
// little, it is as long as the latest of them took.
type Losses struct {
	Largest uint64        // one above the largest acked; what is not below it is judged by time alone
	Next    time.Duration // when the next packet counts as lost by time, 0 = none

	widened int           // times
	late    longest       // from their sending, packets took that were given up and then acked
	delay   time.Duration // from a packet's sending
}

// Spurious learns from a lost packet that arrived: reordering is wider than the thresholds allow. It was acked so long after it left; 0 =
// unknown.
func (l *Losses) Spurious(now, took time.Duration) {
	l.widened = min(l.widened+1, maxWidened)
	l.late.add(now, took)
}

// Begin opens a look at the packets in flight that left before one which arrived. Of each Lost is to be asked.
func (l *Losses) Begin(now, rtt time.Duration) {
	late := l.late.value(now)
	l.Next, l.delay = 0, max(rtt+rtt<<l.widened/8, min(late+late/8, mostLate*rtt), granularity)
}

// Lost reports whether a packet in flight is lost by now, and else notes when it will be.
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

// longest is the greatest of the durations that were added within lateLife, and perhaps within twice that.
type longest struct {
	since          time.Duration // when recent began
	recent, before time.Duration
}

func (l *longest) add(now, d time.Duration) {
	l.age(now)
	l.recent = max(l.recent, d)
}

func (l *longest) value(now time.Duration) time.Duration {
	l.age(now)
	return max(l.recent, l.before)
}

// age forgets what is too old.
func (l *longest) age(now time.Duration) {
	switch passed := now - l.since; {
	case l.recent == 0 && l.before == 0, passed >= 2*lateLife:
		*l = longest{since: now}
	case passed >= lateLife:
		*l = longest{since: now, before: l.recent}
	}
}
