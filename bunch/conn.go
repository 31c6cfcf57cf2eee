package bunch

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Conn is one end of a connection. It has no clock, goroutine or lock. It must not be
// used concurrently: its owner locks it and passes the time to its methods. If now is
// before that of an earlier call, the earlier time counts.
type Conn struct {
	config  Config
	limits  Params // this end's until Agree, then the smaller of both ends'
	start   time.Time
	now     time.Duration // since start; never decreases
	trimmed time.Duration // when trim last ran
	err     error         // why the connection ended; nil while it is open

	// Sending.
	channels    channels
	owed        owed             // closes of this side that the peer has not answered
	levels      [levels]level    // channels with something to send, highest priority first
	blocks      blocks           // memory for payloads that are queued or in flight
	rings       spares[[]entry]  // empty reliable buffers for reuse
	sent        sentPackets      // records of sent packets
	skips       skips            // chooses packet numbers that are never sent
	build       builder          // the packet that AppendPacket is building
	silent      bool             // a keep-alive is due; set by Advance
	placed      []placedDatagram // unreliable bunches of the last packet, for Unsent
	cork        cork             // holds back new messages during a tick
	unreliables backlog          // count of queued unreliable messages
	tracked     tracked          // queued tracked messages, and the fates of sent ones
	repeats     repeats          // small calls to repeat in the next packet
	repairs     repairs          // repair bunches for the end of a transfer
	saturation  saturation       // what the owner holds back, and whether the path keeps up

	// Path.
	path         pathState          // the carrier's last Path, and packets sent on earlier ones
	gate         recovery.Gate      // limits bytes in flight, unless the carrier reports fates
	loss         loss               // detects lost packets, and probes
	peerAckDelay time.Duration      // how long the peer may delay an ack; ours until Agree
	blackHole    recovery.BlackHole // detects that the path drops all but small packets

	// Receiving.
	received   received      // received packets, and when to acknowledge them
	arriving   uint64        // number of the packet that Receive is handling
	ready      readyList     // messages for Next and Take
	flow       flow          // limits of reliable bytes, in both directions
	payloads   payloadMemory // memory of payloads until the owner takes their messages
	unordered  run           // scratch memory in which deliverUnordered joins a message's entries
	assemblies assemblies    // incomplete unreliable messages in parts
	restorer   restorer      // repair bunches waiting for others of their group

	// For the owner.
	wake bool // set when a message is ready, a watch fires or the connection ends; cleared by Wake
	// Set when AppendPacket may have a packet or NextTimeout may have changed; cleared by
	// Changed.
	changed bool
	content recovery.Content // of the last packet from AppendPacket
	watched []*channel       // channels whose watch is armed
	stats   Stats            // counters; the method Stats adds values kept elsewhere
}

const (
	levels    = 2 + int(Bulk) // one for channel 0, and one for each priority
	bulkLevel = levels - 1
)

// level returns the level of ch.
func (c *Conn) level(ch *channel) *level {
	if ch.number == 0 {
		return &c.levels[0]
	}
	return &c.levels[1+ch.priority]
}

// A level holds the channels of one priority that have something to send.
type level struct {
	resend   queue[*channel] // channels with lost entries
	fresh    queue[*channel] // channels with messages that were never sent
	queued   int             // bytes of messages that were never sent
	deferred int             // part of queued that waits for another channel's ack (After)
}

// add counts bytes queued on ch. A negative number counts bytes that are no longer queued.
func (l *level) add(ch *channel, bytes int) {
	l.queued += bytes
	if ch.earlier != nil {
		l.deferred += bytes
	}
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
	c.blocks = newBlocks(maxSmall, maxFull)
	c.payloads = newPayloadMemory()
	c.rings.limit = maxRings
	c.ready.spare.limit = maxReadySpare
	c.flow.init(config.ReceiveLimit)
	c.skips.init(config.Random)
	return c, nil
}

// Params returns this end's limits. Hello carries them to the peer, which passes them to
// Agree.
func (c *Conn) Params() Params { return c.config.params() }

// Agree applies the limits in the peer's Hello. It lowers each limit to the smaller of both
// ends' and adopts the peer's ack delay.
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

// Err returns why the connection ended, or nil if it is still open.
func (c *Conn) Err() error { return c.err }

// Open opens a channel and returns its number. Only a reliable message opens the channel at
// the peer, so the first message should be reliable. The peer drops unreliable messages
// that arrive before it.
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

// UsedUp reports whether this side has used all of its channel numbers. Open then fails
// until there is a new connection.
func (c *Conn) UsedUp() bool { return c.channels.ourNext > maxChannelNumber }

// Refuse forbids the peer to open channels, so that it cannot make this side hold memory
// for them. As soon as the peer names a channel of its own that is not open here, the
// connection ends with code. NoError, the default, lets the peer open channels.
func (c *Conn) Refuse(code Code) { c.channels.refuse = code }

// SetPriority changes a channel's priority. Channel 0 has no priority: it always goes
// first.
func (c *Conn) SetPriority(number uint64, p Priority) error {
	ch := c.channels.find(number)
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
	from.add(ch, -ch.queuedBytes)
	to.add(ch, ch.queuedBytes)
	isChannel := func(other *channel) bool { return other == ch }
	from.resend.remove(isChannel)
	from.fresh.remove(isChannel)
	ch.inFreshQueue, ch.inResendQueue = false, false
	c.schedule(ch)
	c.changed = true
	return nil
}

// closedError returns the error of a method that was called for a channel that is not open.
func (c *Conn) closedError(number uint64) error {
	return fmt.Errorf("%w: channel %d", ErrClosed, number)
}

// Untaken returns how long flow control has held back the next reliable message of a
// channel while the peer still answers. It shows that the peer's world has stopped or
// cannot keep up, and so takes too few messages. Untaken returns 0 if flow control holds
// nothing back or the path is silent.
func (c *Conn) Untaken(number uint64) time.Duration {
	ch := c.channels.find(number)
	if ch == nil || !c.flow.blocked || !c.heldByFlow(ch) || c.dark() {
		return 0
	}
	return c.now - c.flow.blockedAt
}

// AllReady yields the messages waiting for Next or Take, oldest first. It does not remove
// them. The caller must not change them.
func (c *Conn) AllReady(yield func(*Message) bool) { c.ready.each(yield) }

// IsOpen reports whether a channel was opened, by Open or by the peer's first message, and
// has not been closed at this end.
func (c *Conn) IsOpen(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && !ch.outClosed
}

// Reliable returns the number of entries in use in a channel's reliable buffer and its
// capacity. UE: NumOutRec and RELIABLE_BUFFER.
func (c *Conn) Reliable(number uint64) (out, slots int) {
	if ch := c.channels.find(number); ch != nil {
		out = ch.outstanding()
	}
	return out, slotsOf(number, c.limits.ReliableBuffer)
}

// slotsOf returns the capacity of a channel's reliable buffer in entries.
func slotsOf(number uint64, slots int) int {
	if number == 0 {
		return min(slots, controlBuffer)
	}
	return slots
}

// Drained reports whether the peer has acknowledged all reliable messages that were queued.
func (c *Conn) Drained() bool { return c.flow.entries == 0 }

// Held calls visit for each message in a channel's reliable buffer, oldest first, with the
// beginning of the message and the number of entries that it takes. If the first entry of a
// message is already acknowledged, the beginning is its first 16 bytes. A message that
// shares an entry with the previous one takes 0 entries. The entries add up to the out of
// Reliable.
func (c *Conn) Held(number uint64, visit func(head []byte, entries int)) {
	ch := c.channels.find(number)
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

// visitWhole calls visit for each message in the payload of a whole bunch.
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

// Wake reports whether something that the owner may wait for has happened since the last
// call: messages are ready, a watch fired or the connection ended.
func (c *Conn) Wake() bool { return once(&c.wake) }

// Changed reports whether, since the last call, a method call may have given AppendPacket a
// packet, changed NextTimeout or made Wake true. A call of Receive counts only if
// AppendPacket may now have a packet.
func (c *Conn) Changed() bool { return once(&c.changed) }

// once reports whether a flag is set and clears it.
func once(flag *bool) bool {
	set := *flag
	*flag = false
	return set
}

// Content returns the kinds of traffic in the last packet from AppendPacket. Messages on
// channel 0 are neither play nor bulk.
func (c *Conn) Content() recovery.Content { return c.content }

// Queued returns the number of message bytes that were never sent.
func (c *Conn) Queued() (bytes int) {
	for i := range c.levels {
		bytes += c.levels[i].queued
	}
	return bytes + c.tracked.bytes
}

// FirstByte returns the first byte of every packet.
func (c *Conn) FirstByte() byte { return Protocol }

// advanceClock moves the connection's clock forward to now and returns it. It never moves
// the clock back.
func (c *Conn) advanceClock(now time.Time) time.Duration {
	c.now = max(c.now, now.Sub(c.start))
	return c.now
}

// fail ends the connection with err, unless it has already ended, and returns why it ended.
func (c *Conn) fail(err *Error) error {
	if c.err == nil {
		c.err = err
		c.wake = true
		c.changed = true
	}
	return c.err
}
