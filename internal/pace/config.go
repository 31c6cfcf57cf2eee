package pace

import "time"

const (
	// minWindow is how many packets may always be in flight. Fewer wouldn't be enough for their
	// acks to show losses.
	minWindow = 4

	// maxRandomLoss is the largest share of losses that we consider random.
	maxRandomLoss = 0.10

	// minStanding is the shortest target for the queue. Shorter delays may come from timers and
	// interrupts.
	minStanding = 5 * time.Millisecond

	// minimumLife is how long a measured minimum delay is valid. It must be long enough to see the
	// path empty once, and short enough to notice a new route.
	minimumLife = 10 * time.Second

	defaultPacket   = 1500
	defaultAckDelay = 25 * time.Millisecond
	defaultRTT      = 100 * time.Millisecond // used until a round trip is known
)

// A Config has what a Controller can't measure. The zero value of each field selects a default.
type Config struct {
	// Packet is the size of a full packet on the wire in bytes, including IP and UDP headers. 0
	// means 1,500.
	Packet int

	// AckDelay is how long the receiver may delay an ack. 0 means 25 ms, QUIC's default (RFC 9000,
	// section 18.2).
	AckDelay time.Duration

	// Epoch is the time from which common Dips are scheduled; see dips. Zero means 1970, so that
	// all hosts with correct clocks dip at the same times.
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

// shortestFlight returns how many bytes a first flight needs to show a rate.
func (c Config) shortestFlight() float64 { return float64((trainPackets + 2) * c.Packet) }
