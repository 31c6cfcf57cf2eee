package bunch

import (
	"cmp"
	"fmt"
	"time"
)

// Config holds the limits and options of a connection. A field that is zero has the default
// given in its comment.
type Config struct {
	// Client says which channels this side opens. A client opens the channels with odd numbers,
	// and the other side those with even numbers.
	Client bool

	// ReliableBuffer is the number of entries in a channel's reliable buffer, in each
	// direction (UE: RELIABLE_BUFFER). It is a power of two from 8 to 16,384. The default is
	// 256.
	ReliableBuffer int

	// MaxBunch is the maximum size of a message in bytes. The default is 65,536, which is also
	// the highest value allowed.
	MaxBunch int

	// ReceiveLimit is the maximum number of bytes that reliable messages may hold here until
	// the owner takes them. The default is 256 KiB, which is also the lowest value allowed.
	ReceiveLimit int

	// SendLimit is the maximum number of bytes that reliable messages of play may hold here
	// until the peer has acknowledged them. They count with the memory that they take. Beyond
	// the limit, Open and Send fail as if a reliable buffer were full (see Overflow). The
	// default is 64 MiB.
	SendLimit int

	// AckDelay is the maximum delay of an ack. It is from 5 to 200 ms. The default is 40 ms.
	AckDelay time.Duration

	// History is the maximum number of packets that may be undecided, that is, neither
	// acknowledged nor lost. It is from 64 to 4,096. The default is 4,096.
	History int

	// MaxChannels is the maximum number of channels that each side may have open. It is at most
	// 32,767, which is also the default.
	MaxChannels int

	// Rate is the rate in bytes per second that the owner enforces with Hold, for
	// [Conn.QueueTime]. 0 means that there is no limit.
	Rate int

	// IdleTimeout is how long a connection lasts without an answer. It counts from the last
	// answer or, if later, from the first packet since then that asks for one. The default is
	// 30 s.
	IdleTimeout time.Duration

	// KeepAlive is the interval of keep-alives. If no packet has asked for an ack for that
	// long, a packet that asks for one is sent. 0 means that there are no keep-alives.
	KeepAlive time.Duration

	// Overflow says what happens when a reliable buffer is full, or SendLimit is exceeded.
	Overflow Policy

	// Trace, if it is not nil, is called for each step of a message or packet. It must not call
	// the Conn.
	Trace func(Event)

	// Random returns a number from 0 to n-1 that the peer cannot guess, like IntN of
	// math/rand/v2. It is used to pick packet numbers that are never sent, about one in 500.
	//
	// If the peer acknowledges such a number, it must be making up acks. Made-up acks can get
	// us to send faster than the path allows (RFC 9000, section 21.4). The connection then ends
	// with AckSequenceMismatch. If Random is nil, no number is skipped.
	Random func(n int) int
}

const (
	minReceiveLimit = 256 << 10 // bytes that a peer may send before it receives a limit
	sendLimit       = 64 << 20  // default of SendLimit
	maxHistory      = 4096
	maxChannels     = 32767 // UE: DefaultMaxChannelSize
	minAckDelay     = 5 * time.Millisecond
	maxAckDelay     = 200 * time.Millisecond // the sender adds it to its probe timeout
	maxIdleTimeout  = 1 << 62                // 146 years, so that no sum of times overflows

	// maxReliable is the maximum ReliableBuffer. It is this low because only the low 16 bits of
	// a sequence are sent. The receiver takes the sequence with these bits that is nearest to
	// the one it expects.
	maxReliable = 16384
)

func (c Config) withDefaults() Config {
	c.ReliableBuffer = cmp.Or(c.ReliableBuffer, 256)
	c.MaxBunch = cmp.Or(c.MaxBunch, MaxBunchBytes)
	c.ReceiveLimit = cmp.Or(c.ReceiveLimit, minReceiveLimit)
	c.SendLimit = cmp.Or(c.SendLimit, sendLimit)
	c.AckDelay = cmp.Or(c.AckDelay, 40*time.Millisecond)
	c.History = cmp.Or(c.History, maxHistory)
	c.MaxChannels = cmp.Or(c.MaxChannels, maxChannels)
	c.IdleTimeout = min(cmp.Or(c.IdleTimeout, 30*time.Second), maxIdleTimeout)
	return c
}

// params returns our limits, for Hello.
func (c Config) params() Params {
	return Params{
		ReliableBuffer: c.ReliableBuffer,
		MaxBunch:       c.MaxBunch,
		History:        c.History,
		MaxChannels:    c.MaxChannels,
		AckDelay:       c.AckDelay,
	}
}

// validate returns an error for the first field that is invalid.
func (c Config) validate() error {
	if c.ReceiveLimit < minReceiveLimit {
		return fmt.Errorf("bunch: Config.ReceiveLimit is %d bytes, the least is %d", c.ReceiveLimit, minReceiveLimit)
	}
	if c.SendLimit < 0 {
		return fmt.Errorf("bunch: Config.SendLimit is %d bytes", c.SendLimit)
	}
	if c.IdleTimeout < 0 {
		return fmt.Errorf("bunch: Config.IdleTimeout is %v", c.IdleTimeout)
	}
	return c.params().validate()
}

// Params are the limits that each end sends to the other in Hello, to be applied with
// [Conn.Agree]. They are those of Config.
type Params struct {
	ReliableBuffer int           // entries of a channel's reliable buffer in each direction
	MaxBunch       int           // maximum size of a message in bytes
	History        int           // maximum number of undecided packets
	MaxChannels    int           // maximum number of open channels of each side
	AckDelay       time.Duration // maximum delay of an ack
}

// validate returns an error for the first field that is invalid.
func (p Params) validate() error {
	if r := p.ReliableBuffer; r < 8 || r > maxReliable || r&(r-1) != 0 {
		return fmt.Errorf("bunch: ReliableBuffer is %d, not a power of two from 8 to %d", r, maxReliable)
	}
	for _, v := range []struct {
		name       string
		is, lo, hi int
	}{
		{"MaxBunch", p.MaxBunch, 1, MaxBunchBytes},
		{"History", p.History, 64, maxHistory},
		{"MaxChannels", p.MaxChannels, 1, maxChannels},
	} {
		if v.is < v.lo || v.is > v.hi {
			return fmt.Errorf("bunch: %s is %d, not within %d to %d", v.name, v.is, v.lo, v.hi)
		}
	}
	if p.AckDelay < minAckDelay || p.AckDelay > maxAckDelay {
		return fmt.Errorf("bunch: AckDelay is %v, not within %v to %v", p.AckDelay, minAckDelay, maxAckDelay)
	}
	return nil
}

// intersect returns limits that both ends can keep to. Each limit is the smaller of the two
// ends' values, except for AckDelay, which is the larger.
func (p Params) intersect(q Params) Params {
	return Params{
		ReliableBuffer: min(p.ReliableBuffer, q.ReliableBuffer),
		MaxBunch:       min(p.MaxBunch, q.MaxBunch),
		History:        min(p.History, q.History),
		MaxChannels:    min(p.MaxChannels, q.MaxChannels),
		AckDelay:       max(p.AckDelay, q.AckDelay),
	}
}
