package pace

import "time"

const (
	// minWindow is the number of packets that may always be in flight. Their acks reveal
	// losses.
	minWindow = 4
	// maxRandomLoss is the maximum share of loss that may be random.
	maxRandomLoss = 0.10
	// minStanding is the minimum target of the queue. Smaller delays may be due to timers
	// and interrupts.
	minStanding = 5 * time.Millisecond
	// minimumLife is the lifetime of a measured minimum delay: long enough to see the
	// path empty once, and short enough to learn a new route.
	minimumLife = 10 * time.Second

	defaultPacket   = 1500
	defaultAckDelay = 25 * time.Millisecond
	defaultRTT      = 100 * time.Millisecond // used until a round trip is known
)

// Config holds the parameters that a Controller cannot measure. A zero field takes its
// default.
type Config struct {
	// Packet is the size of a full packet on the wire in bytes, including IP and UDP. 0 = 1,500.
	Packet int
	// AckDelay is the maximum time for which the receiver holds back an ack. 0 = 25 ms,
	// QUIC's default (RFC 9000, section 18.2).
	AckDelay time.Duration
	// Epoch is the time from which the times of common Dips are counted; see dips. Zero =
	// 1970, so all hosts whose clocks are right dip together.
	Epoch time.Time
}

// withDefaults returns c with each zero field replaced by its default.
func (c Config) withDefaults() Config {
	if c.Packet <= 0 {
		c.Packet = defaultPacket
	}
	if c.AckDelay <= 0 {
		c.AckDelay = defaultAckDelay
	}
	if c.Epoch.IsZero() {
		c.Epoch = time.Unix(0, 0)
	}
	return c
}

// shortestFlight returns the minimum number of bytes that a first flight needs to show a
// rate.
func (c Config) shortestFlight() float64 { return float64((trainPackets + 2) * c.Packet) }
