package recovery

import "time"

const (
	packetThreshold = 3                // RFC 9002: kPacketThreshold
	granularity     = time.Millisecond // RFC 9002: kGranularity
	maxWidened      = 3                // the time threshold is at most twice the RTT
)

// Losses decides which packets are lost because later ones were acked (RFC 9002, section 6.1). A packet is given up once
// the third after it was acked, or any later one and 9/8 of the round trip have passed since it left. The first loss that
// was none turns the packet threshold off, and each doubles what the time threshold allows beyond the round trip.
type Losses struct {
	Largest uint64        // one above the largest acked; what is not below it is judged by time alone
	Next    time.Duration // when the next packet counts as lost by time, 0 = none

	widened int           // times
	delay   time.Duration // from a packet's sending
}

// Spurious learns from a lost packet that arrived: reordering is wider than the thresholds allow.
func (l *Losses) Spurious() { l.widened = min(l.widened+1, maxWidened) }

// Begin opens a look at the packets in flight that left before one which arrived. Of each Lost is to be asked.
func (l *Losses) Begin(rtt time.Duration) {
	l.Next, l.delay = 0, max(rtt+rtt<<l.widened/8, granularity)
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
