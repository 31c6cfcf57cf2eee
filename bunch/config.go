package bunch

import (
	"cmp"
	"fmt"
	"time"
)

// Config holds the limits and options of one connection. Fields that are zero take the
// default in their comments.
type Config struct {
	Client bool // this side opens the odd channels, the other side the even ones
	// Entries of a channel's reliable buffer in each direction (UE: RELIABLE_BUFFER). It is
	// a power of two from 8 to 16,384. The default is 256.
	ReliableBuffer int
	MaxBunch       int // maximum size of a message in bytes; up to 65,536, the default
	// Bytes that reliable messages may hold here until the owner takes them. It is at least
	// 256 KiB, the default.
	ReceiveLimit int
	AckDelay     time.Duration // maximum delay of an ack; 5 to 200 ms; default 40 ms
	History      int           // maximum number of undecided packets; 64 to 4,096, the default
	MaxChannels  int           // maximum number of open channels of each side; up to 32,767, the default
	// Bytes per second that the owner enforces with Hold; used by [Conn.QueueTime]. 0 = no
	// limit.
	Rate        int
	IdleTimeout time.Duration // since the first unanswered packet asking for an ack; default 30 s
	KeepAlive   time.Duration // ask for an ack if no packet did for this long; 0 = no keep-alive
	Overflow    Policy        // what happens when a reliable buffer is full
	Trace       func(Event)   // called at each step of messages and packets; nil = off; must not call the Conn

	// Random returns a number from 0 to n-1 that the peer cannot guess, like IntN of
	// math/rand/v2. It chooses packet numbers, about one in 500, that are never sent.
	//
	// A peer that acknowledges such a number invents acks, which makes this side send
	// faster than the path allows (RFC 9000, section 21.4). The connection then ends with
	// AckSequenceMismatch. If Random is nil, no number is left out.
	Random func(n int) int
}

const (
	minReceiveLimit = 256 << 10 // bytes that a peer may send before it has received a limit
	maxHistory      = 4096
	maxChannels     = 32767 // UE: DefaultMaxChannelSize
	minAckDelay     = 5 * time.Millisecond
	maxAckDelay     = 200 * time.Millisecond // limited because it is part of the sender's probe timeout
	maxIdleTimeout  = 1 << 62                // 146 years; no sum of times overflows
	// A sequence is reconstructed from its low 16 bits as the value nearest to the expected
	// one.
	maxReliable = 16384
)

func (c Config) withDefaults() Config {
	c.ReliableBuffer = cmp.Or(c.ReliableBuffer, 256)
	c.MaxBunch = cmp.Or(c.MaxBunch, MaxBunchBytes)
	c.ReceiveLimit = cmp.Or(c.ReceiveLimit, minReceiveLimit)
	c.AckDelay = cmp.Or(c.AckDelay, 40*time.Millisecond)
	c.History = cmp.Or(c.History, maxHistory)
	c.MaxChannels = cmp.Or(c.MaxChannels, maxChannels)
	c.IdleTimeout = min(cmp.Or(c.IdleTimeout, 30*time.Second), maxIdleTimeout)
	return c
}

// params returns this side's limits, for Hello.
func (c Config) params() Params {
	return Params{
		ReliableBuffer: c.ReliableBuffer,
		MaxBunch:       c.MaxBunch,
		History:        c.History,
		MaxChannels:    c.MaxChannels,
		AckDelay:       c.AckDelay,
	}
}

// validate returns an error that names the first invalid field.
func (c Config) validate() error {
	if c.ReceiveLimit < minReceiveLimit {
		return fmt.Errorf("bunch: Config.ReceiveLimit is %d bytes, the least is %d", c.ReceiveLimit, minReceiveLimit)
	}
	if c.IdleTimeout < 0 {
		return fmt.Errorf("bunch: Config.IdleTimeout is %v", c.IdleTimeout)
	}
	return c.params().validate()
}

// Params are the limits that each end sends in Hello. See [Conn.Agree].
type Params struct {
	ReliableBuffer int           // entries of a channel's reliable buffer in each direction
	MaxBunch       int           // maximum size of a message in bytes
	History        int           // maximum number of undecided packets
	MaxChannels    int           // maximum number of open channels of each side
	AckDelay       time.Duration // maximum delay of an ack
}

// validate returns an error that names the first invalid field.
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

// smaller returns the limits that both ends can keep: the smaller of each limit, but the
// longer ack delay.
func (p Params) smaller(q Params) Params {
	return Params{
		ReliableBuffer: min(p.ReliableBuffer, q.ReliableBuffer),
		MaxBunch:       min(p.MaxBunch, q.MaxBunch),
		History:        min(p.History, q.History),
		MaxChannels:    min(p.MaxChannels, q.MaxChannels),
		AckDelay:       max(p.AckDelay, q.AckDelay),
	}
}
