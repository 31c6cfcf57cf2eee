package bunch

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/words"
)

// Config holds the limits and options of a connection. A field that is zero has the default
// given in its comment.
type Config struct {
	// Client is true for the client, which opens the channels with odd numbers. The other side
	// opens those with even numbers.
	Client bool

	// ReliableBuffer is the number of entries in a channel's reliable buffer, in each
	// direction (Unreal: RELIABLE_BUFFER). It is a power of two from 8 to 16,384. The default
	// is 256.
	ReliableBuffer int

	// MaxBunch is the maximum size of a message in bytes. The default is 65,536, which is also
	// the highest value allowed. Package rpc needs at least 71 bytes for its own messages.
	MaxBunch int

	// ReceiveLimit is the maximum number of bytes that reliable messages may hold here until
	// the owner takes them. The default is 256 KiB, which is also the lowest value allowed.
	// [Conn.SetReceiveLimit] can raise it later.
	ReceiveLimit int

	// SendLimit is the maximum amount of memory, in bytes, that reliable messages of play may
	// take here until the peer has acknowledged them. Beyond the limit, Open and Send fail as if
	// a reliable buffer were full (see Overflow). The default is 64 MiB.
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

	// IdleTimeout is how long a connection waits for an ack before it ends. It counts from the
	// last ack or, if later, from the first packet since then that asks for one. The default is
	// 30 s.
	IdleTimeout time.Duration

	// KeepAlive is the interval of keep-alives. If no packet has asked for an ack for that
	// long, we send one that does. 0 means that there are no keep-alives.
	KeepAlive time.Duration

	// Overflow says what happens when a reliable buffer is full, or SendLimit is exceeded.
	Overflow Policy

	// Trace, if it is not nil, is called for each step of a message or packet. It must not call
	// the Conn.
	Trace func(Event)

	// Random returns a number from 0 to n-1 that the peer cannot guess, like IntN of
	// math/rand/v2. It is used to pick packet numbers that are never sent, about one in 500.
	//
	// If the peer acknowledges such a number, it must be making up acks, which could get us to
	// send faster than the path allows (RFC 9000, section 21.4), so the connection ends with
	// AckSequenceMismatch. If Random is nil, no number is skipped.
	Random func(n int) int
}

const (
	defaultReliableBuffer = 256 // as in Unreal (RELIABLE_BUFFER)
	defaultSendLimit      = 64 << 20
	defaultAckDelay       = 40 * time.Millisecond
	defaultIdleTimeout    = 30 * time.Second

	minReceiveLimit = 256 << 10 // bytes that a peer may send before it receives a limit
	maxHistory      = 4096
	maxChannels     = 32767 // as in Unreal (DefaultMaxChannelSize)
	minHistory      = 64    // enough for two seconds with a packet per tick
	minAckDelay     = 5 * time.Millisecond
	maxAckDelay     = 200 * time.Millisecond // the sender adds it to its probe timeout
	maxTimer        = 1 << 62                // 146 years, so that no sum of times overflows

	// minReliable is the minimum ReliableBuffer. The exact value isn't critical, but a channel
	// needs a few entries besides the one that is reserved for its close.
	minReliable = 8

	// maxReliable is the maximum ReliableBuffer. Only the low 16 bits of a sequence are sent, and
	// the receiver chooses the sequence with these bits that is nearest to the one it expects, so
	// the buffer must be well below 2^15 entries.
	maxReliable = 16384
)

func (c Config) withDefaults() Config {
	c.ReliableBuffer = cmp.Or(c.ReliableBuffer, defaultReliableBuffer)
	c.MaxBunch = cmp.Or(c.MaxBunch, MaxBunchBytes)
	c.ReceiveLimit = cmp.Or(c.ReceiveLimit, minReceiveLimit)
	c.SendLimit = cmp.Or(c.SendLimit, defaultSendLimit)
	c.AckDelay = cmp.Or(c.AckDelay, defaultAckDelay)
	c.History = cmp.Or(c.History, maxHistory)
	c.MaxChannels = cmp.Or(c.MaxChannels, maxChannels)
	c.IdleTimeout = min(cmp.Or(c.IdleTimeout, defaultIdleTimeout), maxTimer)
	c.KeepAlive = min(c.KeepAlive, maxTimer)
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
		return fmt.Errorf("bunch: Config.ReceiveLimit is %s; the minimum is %d", words.Bytes(c.ReceiveLimit), minReceiveLimit)
	}
	if err := cmp.Or(
		notNegative("SendLimit", c.SendLimit),
		notNegative("Rate", c.Rate),
		notNegative("IdleTimeout", c.IdleTimeout),
		notNegative("KeepAlive", c.KeepAlive),
	); err != nil {
		return err
	}
	if c.Overflow > OverflowError {
		return fmt.Errorf("bunch: Config.Overflow is %d; it must be OverflowClose or OverflowError", c.Overflow)
	}
	return c.params().validate()
}

// notNegative returns an error if the field with the given name is negative.
func notNegative[T int | time.Duration](name string, value T) error {
	if value < 0 {
		return fmt.Errorf("bunch: Config.%s is %v; it must not be negative", name, value)
	}
	return nil
}

// Params are the limits from Config that each end sends to the other in Hello, the first message of
// the handshake. The other end applies them with [Conn.Agree].
type Params struct {
	ReliableBuffer int           // entries of a channel's reliable buffer in each direction
	MaxBunch       int           // maximum size of a message in bytes
	History        int           // maximum number of undecided packets
	MaxChannels    int           // maximum number of open channels of each side
	AckDelay       time.Duration // maximum delay of an ack
}

// validate returns an error for the first field that is invalid.
func (p Params) validate() error {
	if r := p.ReliableBuffer; r < minReliable || r > maxReliable || r&(r-1) != 0 {
		return fmt.Errorf("bunch: ReliableBuffer is %d; it must be a power of two from %d to %d",
			r, minReliable, maxReliable)
	}
	for _, field := range []struct {
		name          string
		value, lo, hi int
	}{
		{"MaxBunch", p.MaxBunch, 1, MaxBunchBytes},
		{"History", p.History, minHistory, maxHistory},
		{"MaxChannels", p.MaxChannels, 1, maxChannels},
	} {
		if field.value < field.lo || field.value > field.hi {
			return fmt.Errorf("bunch: %s is %d; it must be from %d to %d", field.name, field.value, field.lo, field.hi)
		}
	}
	if p.AckDelay < minAckDelay || p.AckDelay > maxAckDelay {
		return fmt.Errorf("bunch: AckDelay is %v; it must be from %v to %v", p.AckDelay, minAckDelay, maxAckDelay)
	}
	return nil
}

// intersect returns limits that are acceptable to both ends. Each is the smaller of the two ends'
// values, except for AckDelay, which is the larger.
func (p Params) intersect(q Params) Params {
	return Params{
		ReliableBuffer: min(p.ReliableBuffer, q.ReliableBuffer),
		MaxBunch:       min(p.MaxBunch, q.MaxBunch),
		History:        min(p.History, q.History),
		MaxChannels:    min(p.MaxChannels, q.MaxChannels),
		AckDelay:       max(p.AckDelay, q.AckDelay),
	}
}

// An Event is one step of a trace. Events are traced in the order of the steps. Kind says
// which other fields are set:
//
//	queued    a message of Bytes was queued on Channel; if it is reliable, Sequence is the last
//	          entry that holds some of it
//	bunch     a part of a message, of Bytes, was added to the packet that is being built; Again:
//	          an earlier packet had the part as well. Sequence is the entry of a reliable message,
//	          and otherwise the number of parts of the message that have yet to be sent
//	sent      the packet Number, of Bytes, was sent; Asks: it is ack-eliciting
//	unsent    the packet Number, the last one, was not sent, nor were its bunches
//	acked     the packet Number was acknowledged; Again: it had been declared lost
//	lost      the packet Number was declared lost
//	freed     the entries of Channel below Sequence were acknowledged
//	dropped   an unreliable message was dropped from the queue of Channel
//	received  the packet Number, of Bytes, was received
//	ready     a message of Channel waits for Take; the packet Number completed it
type Event struct {
	At       time.Duration // since the connection began
	Kind     string
	Number   uint64
	Bytes    int
	Channel  uint64
	Sequence uint64   // of an entry of Channel's reliable buffer, counted from 0
	Delivery Delivery // of a message
	Again    bool
	Asks     bool
}

// traced reports whether there's a Trace. Callers check it before they make an Event, because
// making one takes 10% of the time needed to handle a message.
func (c *Conn) traced() bool { return c.config.Trace != nil }

// trace stamps an event with the current time and passes it to Trace.
func (c *Conn) trace(ev Event) {
	ev.At = c.now
	c.config.Trace(ev)
}
