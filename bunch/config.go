package bunch

import (
	"cmp"
	"fmt"
	"time"
)

// Config holds what one connection is allowed. Zero fields take the default named beside them.
type Config struct {
	Client         bool          // this side opens odd channels, the other even ones
	ReliableBuffer int           // entries a channel and direction (UE: RELIABLE_BUFFER); a power of two from 8 to 16,384; default 256
	MaxBunch       int           // bytes of one message; up to 65,536, the default
	ReceiveLimit   int           // bytes that reliable messages may hold here until they are taken; at least 256 KiB, the default
	AckDelay       time.Duration // longest wait before an ack; 5 to 200 ms; default 40 ms
	History        int           // packets undecided at once; 64 to 4,096, the default
	MaxChannels    int           // open at once of each side's own; up to 32,767, the default
	Rate           int           // bytes a second to which the owner keeps by Hold; [Conn.QueueTime] counts with it; 0 = no limit
	IdleTimeout    time.Duration // from the first unanswered packet that asks for an ack; default 30 s
	KeepAlive      time.Duration // a packet asks for an ack when none has for that long; 0 = none does
	Overflow       Policy        // what a full reliable buffer does
	Trace          func(Event)   // hears each step of messages and packets; nil = off; called inside the machine, must not call back

	// Random returns a number from 0 to n-1 that the peer cannot guess, as IntN of math/rand/v2 does. It decides which packet
	// numbers, about one in 500, are left out. A peer that acknowledges one of them makes its acks up, so that this side sends
	// faster than the path takes (RFC 9000, section 21.4); the connection closes with AckSequenceMismatch. nil leaves none out.
	Random func(n int) int
}

const (
	minReceiveLimit = 256 << 10 // bytes that a peer may send before it was told a limit
	maxHistory      = 4096
	maxChannels     = 32767 // UE: DefaultMaxChannelSize
	minAckDelay     = 5 * time.Millisecond
	maxAckDelay     = 200 * time.Millisecond // it is part of the sender's probe timeout
	maxIdleTimeout  = 1 << 62                // 146 years, so that no sum of times overflows
	maxReliable     = 16384                  // sequences are rebuilt from 16 bits, nearest to the expected one
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

// params returns what this side allows, for Hello.
func (c Config) params() Params {
	return Params{ReliableBuffer: c.ReliableBuffer, MaxBunch: c.MaxBunch, History: c.History,
		MaxChannels: c.MaxChannels, AckDelay: c.AckDelay}
}

func (c Config) validate() error {
	if c.ReceiveLimit < minReceiveLimit {
		return fmt.Errorf("bunch: Config.ReceiveLimit is %d bytes, the least is %d", c.ReceiveLimit, minReceiveLimit)
	}
	if c.IdleTimeout < 0 {
		return fmt.Errorf("bunch: Config.IdleTimeout is %v", c.IdleTimeout)
	}
	return c.params().validate()
}

// Params are the limits that both ends exchange in Hello. See [Conn.Agree].
type Params struct {
	ReliableBuffer int           // entries a channel and direction
	MaxBunch       int           // bytes
	History        int           // packets
	MaxChannels    int           // open at once
	AckDelay       time.Duration // longest wait before an ack
}

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

// smaller returns the limits that both ends can keep: of each the smaller one, and the longer ack delay.
func (p Params) smaller(q Params) Params {
	return Params{
		ReliableBuffer: min(p.ReliableBuffer, q.ReliableBuffer),
		MaxBunch:       min(p.MaxBunch, q.MaxBunch),
		History:        min(p.History, q.History),
		MaxChannels:    min(p.MaxChannels, q.MaxChannels),
		AckDelay:       max(p.AckDelay, q.AckDelay),
	}
}
