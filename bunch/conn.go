package bunch

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Conn is one end of a connection. It has no clock, goroutine or lock; a now that lies before an earlier one counts as that
// one. It is not safe for concurrent use.
type Conn struct {
	config  Config
	limits  Params // what both ends can keep
	start   time.Time
	now     time.Duration // since start
	trimmed time.Duration // when trim was last called
	err     error

	// Sending.
	channels    channels
	owed        owed
	levels      [levels]level
	blocks      blocks
	rings       spares[[]entry] // of reliable buffers, empty
	sent        sentPackets
	skips       skips
	build       builder
	undo        undo // takes back the last packet
	cork        cork
	unreliables backlog // how many wait
	tracked     tracked
	repeats     repeats
	saturation  saturation

	// Path.
	way          way
	gate         recovery.Gate
	loss         loss
	peerAckDelay time.Duration
	blackHole    recovery.BlackHole

	// Receiving.
	received   received
	arriving   uint64 // number of the packet that is being received
	ready      readyList
	flow       flow
	payloads   payloadMemory
	loose      run // the message of takeUnordered while its entries are joined
	assemblies assemblies

	// The owner.
	wake    bool
	changed bool
	bulk    bool       // the last packet holds bulk
	watched []*channel // those whose watch is armed
	stats   Stats
}

// levels is how many levels of precedence there are: control, then each priority.
const (
	levels    = 2 + int(Bulk)
	bulkLevel = levels - 1
)

func (c *Conn) level(ch *channel) *level {
	if ch.number == 0 {
		return &c.levels[0]
	}
	return &c.levels[1+ch.priority]
}

// level holds the channels of one priority that have something to send.
type level struct {
	resend, fresh queue[*channel]
	queued        int // bytes never sent
}

// NewConn returns a connection that begins at now.
func NewConn(now time.Time, config Config) (*Conn, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	c := &Conn{config: config, limits: config.params(), start: now}
	c.channels = newChannels(config.Client, config.MaxChannels)
	c.peerAckDelay = config.AckDelay
	c.blocks, c.payloads = newBlocks(maxSpare), newPayloadMemory()
	c.rings.most, c.ready.spare.most = maxRings, maxReadySpare
	c.flow.init(config.ReceiveLimit)
	c.skips.init(config.Random)
	return c, nil
}

// Params returns what this side allows, for Hello.
func (c *Conn) Params() Params { return c.config.params() }

// Agree takes the smaller of both ends' limits, and the peer's ack delay. The owner calls it once the peer's Hello came.
func (c *Conn) Agree(peer Params) error {
	if err := peer.validate(); err != nil {
		return err
	}
	c.changed = true
	c.limits = c.limits.smaller(peer)
	c.channels.limit = c.limits.MaxChannels
	c.peerAckDelay = peer.AckDelay
	return nil
}

// Err returns why the connection ended, nil while it lives.
func (c *Conn) Err() error { return c.err }

// Open opens a channel. The peer learns of it with the first reliable message, which should be the first of all.
func (c *Conn) Open(p Priority) (uint64, error) {
	if c.err != nil {
		return 0, c.err
	}
	if p > Bulk {
		return 0, fmt.Errorf("bunch: unknown priority %d", p)
	}
	ch := c.channels.create(p)
	if ch == nil {
		return 0, fmt.Errorf("bunch: no channel left: %d of %d open at once (MaxChannels), next number %d of %d",
			c.channels.ours, c.channels.limit, c.channels.ourNext, maxChannelNumber)
	}
	return ch.number, nil
}

// Refuse ends the connection with code when the peer names a channel of its own that is not open: one that may open no channels
// cannot make this side hold anything for them. NoError, the default, lets the peer open channels.
func (c *Conn) Refuse(code Code) { c.channels.refuse = code }

// SetPriority moves a channel to another priority. Channel 0 has none: it stays ahead of all.
func (c *Conn) SetPriority(number uint64, p Priority) error {
	ch := c.channels.open[number]
	switch {
	case ch == nil:
		return c.closedError(number)
	case number == 0 || p > Bulk:
		return fmt.Errorf("bunch: channel %d cannot have priority %d", number, p)
	}
	from := c.level(ch)
	ch.priority = p
	to := c.level(ch)
	if from == to {
		return nil
	}
	from.queued -= ch.queuedBytes
	to.queued += ch.queuedBytes
	is := func(other *channel) bool { return other == ch }
	from.resend.remove(is)
	from.fresh.remove(is)
	ch.inFreshQueue, ch.inResendQueue = false, false
	c.schedule(ch)
	c.changed = true
	return nil
}

func (c *Conn) closedError(number uint64) error {
	return fmt.Errorf("%w: channel %d", ErrClosed, number)
}

// IsOpen reports whether a channel was opened, here or by the peer's first message, and was not closed here.
func (c *Conn) IsOpen(number uint64) bool {
	ch := c.channels.open[number]
	return ch != nil && !ch.outClosed
}

// Reliable returns how many entries of ch's reliable buffer are taken (UE: NumOutRec) and its size (RELIABLE_BUFFER).
func (c *Conn) Reliable(number uint64) (out, slots int) {
	if ch := c.channels.open[number]; ch != nil {
		out = ch.outstanding()
	}
	return out, slotsOf(number, c.limits.ReliableBuffer)
}

// slotsOf returns how many entries the reliable buffer of a channel has.
func slotsOf(number uint64, slots int) int {
	if number == 0 {
		return min(slots, controlBuffer)
	}
	return slots
}

// Drained reports whether the peer has acknowledged all that was sent reliably.
func (c *Conn) Drained() bool { return c.flow.entries == 0 }

// Held calls visit for each message in ch's reliable buffer, oldest first, with its first bytes (16 of a message whose first
// entry is acknowledged) and how many entries it takes, 0 when it shares the entry of the one before. The entries add up to
// what Reliable says.
func (c *Conn) Held(number uint64, visit func(head []byte, entries int)) {
	ch := c.channels.open[number]
	if ch == nil {
		return
	}
	for n := ch.first; n < ch.next; {
		e := ch.out.at(n)
		if e.flags&flagWhole == flagWhole {
			visitWhole(e.payload, visit)
			n++
			continue
		}
		head := e.payload
		if e.flags&flagBegin == 0 {
			head = ch.popped.bytes[:ch.popped.n]
		}
		entries := ch.runFrom(n)
		visit(head, entries)
		n += uint64(entries)
	}
}

// runFrom counts the entries from n to the end of its run.
func (ch *channel) runFrom(n uint64) int {
	end := n
	for end+1 < ch.next && ch.out.at(end).flags&flagEnd == 0 {
		end++
	}
	return int(end-n) + 1
}

func visitWhole(b []byte, visit func(head []byte, entries int)) {
	if len(b) == 0 {
		visit(nil, 1) // a close without a message
	}
	for entries := 1; len(b) > 0; entries = 0 {
		size, n := consumeVarint(b)
		b = b[n:]
		visit(b[:size], entries)
		b = b[size:]
	}
}

// Wake reports, once, that something happened for which the owner may wait: messages are ready, a watch fired or the connection
// ended.
func (c *Conn) Wake() bool {
	w := c.wake
	c.wake = false
	return w
}

// Changed reports, once, that since its last call the owner did something that may let a packet leave, move NextTimeout or make
// Wake true, or that something was received that may let a packet leave.
func (c *Conn) Changed() bool {
	changed := c.changed
	c.changed = false
	return changed
}

// ReceiveLent is Receive of a datagram that stays the caller's: what must be kept of it is copied. Parts of a run are copied into memory that
// is used again, so that a long message costs no more of the collector than its own bytes.
func (c *Conn) ReceiveLent(now time.Time, datagram []byte) error {
	c.payloads.lent = true
	defer func() { c.payloads.lent = false }()
	return c.Receive(now, datagram)
}

// Bulk reports whether the packet that AppendPacket returned last holds bulk.
func (c *Conn) Bulk() bool { return c.bulk }

// Queued returns how many bytes of messages were never sent.
func (c *Conn) Queued() (bytes int) {
	for i := range c.levels {
		bytes += c.levels[i].queued
	}
	return bytes + c.tracked.bytes
}

// FirstByte returns the first byte of each datagram for this machine.
func (c *Conn) FirstByte() byte { return Protocol }

// advanceClock returns now as time since the start, clamped so that it never runs back.
func (c *Conn) advanceClock(now time.Time) time.Duration {
	c.now = max(c.now, now.Sub(c.start))
	return c.now
}

func (c *Conn) fail(err *Error) error {
	if c.err == nil {
		c.err, c.wake, c.changed = err, true, true
	}
	return c.err
}
