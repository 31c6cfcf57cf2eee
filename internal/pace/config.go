package pace

import "time"

const (
	// minWindow is how many packets may always be in flight. Their acks show us losses.
	minWindow = 4

	// maxRandomLoss is how large a share of loss we may consider to be random.
	maxRandomLoss = 0.10

	// minStanding is the shortest target for the queue. Delays below that may come from timers and
	// interrupts.
	minStanding = 5 * time.Millisecond

	// minimumLife is for how long a measured minimum delay is valid. It must be long enough to
	// see the path empty once, and short enough to notice a new route.
	minimumLife = 10 * time.Second

	defaultPacket   = 1500
	defaultAckDelay = 25 * time.Millisecond
	defaultRTT      = 100 * time.Millisecond // used until a round trip is known
)

// Config is what a Controller can't measure. Each field may be left zero.
type Config struct {
	// Packet is how large a full packet is on the wire, in bytes with IP and UDP. 0 means 1,500.
	Packet int

	// AckDelay is how long the receiver may hold back an ack. 0 means 25 ms, QUIC's default (RFC
	// 9000, section 18.2).
	AckDelay time.Duration

	// Epoch is what the times of common Dips are counted from; see dips. Zero means 1970, with
	// which all hosts dip together whose clocks are right.
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

// shortestFlight returns how many bytes a first flight must have to show a rate.
func (c Config) shortestFlight() float64 { return float64((trainPackets + 2) * c.Packet) }
