package recovery

import "time"

const (
	packetThreshold = 3                // kPacketThreshold (RFC 9002, section 6.1.1)
	granularity     = time.Millisecond // kGranularity (RFC 9002, section 6.1.2)

	// Each spurious loss doubles the eighth of a round trip by which the time threshold exceeds the
	// round trip. After maxWidened of them, the threshold is two round trips.
	maxWidened = 3

	// maxLate limits the time threshold that late packets cause, in round trips. It must be more
	// than 3, because an ack takes that long if every other packet is late by a round trip in
	// either direction.
	maxLate = 4

	// lateLife is the minimum time for which a late packet counts. It's many round trips, yet the
	// threshold narrows soon after the path has stopped reordering.
	lateLife = 10 * time.Second
)

// Losses is a loss detector (RFC 9002, section 6.1). It declares a packet lost if a later one was
// acked and either that one was sent packetThreshold or more packets later (the packet threshold),
// or 9/8 of a round trip has passed since the packet was sent (the time threshold).
//
// It adapts to paths that reorder packets. The first loss that turns out to be spurious disables
// the packet threshold, and each one widens the time threshold. If late packets took even longer,
// the time threshold becomes 9/8 of the longest time that one took.
type Losses struct {
	Largest uint64        // one more than the largest acked number
	Next    time.Duration // when the next packet will be overdue; 0 if none will

	widened int           // number of spurious losses, up to maxWidened
	late    longest       // the time until late packets were acked
	delay   time.Duration // the time threshold, as computed by Begin
}

// Spurious is called when a packet that was declared lost is acked, so packets may arrive later
// than expected. took is the time since it was sent, or 0 if unknown.
func (l *Losses) Spurious(now, took time.Duration) {
	l.widened = min(l.widened+1, maxWidened)
	l.late.add(now, took)
}

// Begin begins a check of the packets in flight that were sent before one that was acked. The owner
// must then call Check for each of them.
func (l *Losses) Begin(now, rtt time.Duration) {
	late := l.late.value(now)
	l.Next = 0
	l.delay = max(rtt+rtt<<l.widened/8, min(late+late/8, maxLate*rtt), granularity)
}

// Check reports whether a packet in flight is lost by now. If it isn't, Check makes sure that Next
// is no later than the time when it will be.
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

// A longest is the maximum of recent durations, each of which counts for at least lateLife and at
// most twice as long.
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
