package pace

import "time"

const (
	// minWindow is how many packets may always be in flight, so that acks and loss detection have something to work on.
	minWindow = 4
	// maxRandomLoss is the loss that is not congestion by itself, DESIGN.md 7.
	maxRandomLoss = 0.10
	// minStanding is the least target of the queue: below, timers and interrupts look like a queue.
	minStanding = 5 * time.Millisecond
	// minimumLife is how long a minimum of delay counts: long enough to see the path empty, short enough to learn a new route.
	minimumLife = 10 * time.Second

	defaultPacket   = 1500
	defaultAckDelay = 25 * time.Millisecond
	defaultRTT      = 100 * time.Millisecond // until anything is known
)

// Config has what a Controller cannot measure. The zero value is ready.
type Config struct {
	// Packet is the size of a full packet on the wire in bytes, IP and UDP included. 0 = 1,500.
	Packet int
	// AckDelay is the longest that the receiver holds an ack back. 0 = 25 ms.
	AckDelay time.Duration
}

func (c Config) withDefaults() Config {
	if c.Packet <= 0 {
		c.Packet = defaultPacket
	}
	if c.AckDelay <= 0 {
		c.AckDelay = defaultAckDelay
	}
	return c
}
