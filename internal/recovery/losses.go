package recovery

import "time"

const (
	packetThreshold = 3                // kPacketThreshold (RFC 9002, section 6.1.1)
	granularity     = time.Millisecond // kGranularity (RFC 9002, section 6.1.2)
	maxWidened      = 3                // how many spurious losses widen the time threshold; three make it two RTTs

	// maxLate is how many round trips late packets can widen the time threshold to. It has to be
	// more than three: that's when an ack comes if every other packet is late by a round trip in
	// either direction.
	maxLate = 4

	// lateLife is for how long a late packet counts, at the least.
	lateLife = 10 * time.Second
)

// Losses is a loss detector (RFC 9002, section 6.1). It declares packets lost because later ones
// were acked: if one that was sent three or more packets later was acked, or if any later one
// was, and it's been 9/8 of a round trip since the packet was sent.
//
// It adapts to paths that reorder packets. The first loss that turns out to be spurious turns
// off the packet threshold. Each one also doubles what the time threshold exceeds the round trip
// by. If that's still not enough, the threshold becomes 9/8 of the longest time that a late
// packet took.
type Losses struct {
	Largest uint64        // one more than the largest acked number
	Next    time.Duration // when the next packet will be overdue; 0 if none will

	widened int           // how many losses were spurious, up to maxWidened
	late    longest       // how long the late packets took until they were acked
	delay   time.Duration // the time threshold, as computed by Begin
}

// Spurious is called when a packet that was declared lost has been acked after all, so packets may
// arrive later than we thought. took is how long after it was sent, or 0 if unknown.
func (l *Losses) Spurious(now, took time.Duration) {
	l.widened = min(l.widened+1, maxWidened)
	l.late.add(now, took)
}

// Begin begins to check the packets in flight that were sent before one that was acked. The
// owner must then call Check for each of them.
func (l *Losses) Begin(now, rtt time.Duration) {
	late := l.late.value(now)
	l.Next = 0
	l.delay = max(rtt+rtt<<l.widened/8, min(late+late/8, maxLate*rtt), granularity)
}

// Check reports whether a packet in flight is lost by now. If it isn't, Next is no later than
// when it will be.
func (l *Losses) Check(now time.Duration, number uint64, sent time.Duration) (lost bool) {
	due := sent + l.delay
	if due <= now || l.widened == 0 && number+packetThreshold < l.Largest {
		return true
	}
	if l.Next == 0 || due < l.Next {
		l.Next = due
	}
	return false
}

// A longest is the maximum of recent durations. Each counts for lateLife at the least, and for
// twice as long at most.
type longest struct {
	since          time.Duration // when the current period began
	recent, before time.Duration // maximum of the current period and of the one before it
}

func (l *longest) add(now, d time.Duration) {
	l.age(now)
	l.recent = max(l.recent, d)
}

func (l *longest) value(now time.Duration) time.Duration {
	l.age(now)
	return max(l.recent, l.before)
}

// age begins a new period when the current one has lasted for lateLife.
func (l *longest) age(now time.Duration) {
	passed := now - l.since
	switch {
	case l.recent == 0 && l.before == 0, passed >= 2*lateLife:
		*l = longest{since: now}
	case passed >= lateLife:
		*l = longest{since: now, before: l.recent}
	}
}
