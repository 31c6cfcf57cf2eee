package pace

import "time"

const (
	// minWindow is how many packets may always be in flight, so that there are acks, by which losses are found.
	minWindow = 4
	// maxRandomLoss is the greatest share of loss that may be random.
	maxRandomLoss = 0.10
	// minStanding is the least target of the queue: in less, timers and interrupts look like a queue.
	minStanding = 5 * time.Millisecond
	// minimumLife is how long a minimum of delay counts: long enough to see the path empty once, short enough to learn a new route.
	minimumLife = 10 * time.Second

	defaultPacket   = 1500
	defaultAckDelay = 25 * time.Millisecond
	defaultRTT      = 100 * time.Millisecond // until anything is known
)

// Config holds what a Controller cannot measure. The zero value has the defaults.
type Config struct {
	// Packet is the size of a full packet on the wire in bytes, IP and UDP included. 0 = 1,500.
	Packet int
	// AckDelay is the longest time for which the receiver holds back an ack. 0 = 25 ms, QUIC's default (RFC 9000, section 18.2).
	AckDelay time.Duration
	// Epoch is the time from which common Dips count: see dips. Zero = 1970, so that all whose clocks are right dip together.
	Epoch time.Time
}

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

// shortestFlight returns the bytes of the shortest first flight that shows a rate.
func (c Config) shortestFlight() float64 { return float64((trainPackets + 2) * c.Packet) }
