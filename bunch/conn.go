package bunch

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Conn is one end of a connection. It has no clock, goroutine or lock, and must not be
// used concurrently: its owner locks it, and passes the time to its methods. Time does
// not go backwards: a now before that of an earlier call counts as the earlier one.
type Conn struct {
	config  Config
	limits  Params // this end's until Agree, then the smaller of both ends'
	start   time.Time
	now     time.Duration // since start; never runs back
	trimmed time.Duration // when trim last ran
	err     error         // why the connection ended; nil while it lives

	// Sending.
	channels    channels
	owed        owed             // closes of this side that the peer has not answered
	levels      [levels]level    // channels with something to send, the most urgent level first
	blocks      blocks           // memory for payloads that are queued or in flight
	rings       spares[[]entry]  // empty reliable buffers for reuse
	sent        sentPackets      // records of sent packets
	skips       skips            // chooses packet numbers that are never sent
	build       builder          // the packet that AppendPacket is building
	silent      bool             // set by Advance when a keep-alive is due
	placed      []placedDatagram // unreliable bunches of the last packet, for Unsent
	cork        cork             // holds new messages back during a tick
	unreliables backlog          // queued unreliable messages
	tracked     tracked          // queued tracked messages, and the fates of sent ones
	repeats     repeats          // small calls that the next packet carries once more
	repairs     repairs          // repair bunches for the end of a transfer
	saturation  saturation       // what the owner holds back, and whether the path keeps up

	// Path.
	path         pathState          // the carrier's last Path, and the packets in flight on an earlier one
	gate         recovery.Gate      // limits the bytes in flight, unless the carrier reports fates
	loss         loss               // detects lost packets, and probes
	peerAckDelay time.Duration      // how long the peer may delay an ack; ours until Agree
	blackHole    recovery.BlackHole // detects that the path drops all but small packets

	// Receiving.
	received   received      // received packets, and when to acknowledge them
	arriving   uint64        // number of the packet that Receive is handling
	ready      readyList     // messages for Next and Take
	flow       flow          // limits of reliable bytes, in both directions
	payloads   payloadMemory // memory of payloads until the owner takes their messages
	unordered  run           // scratch memory of deliverUnordered, which joins the entries of one message in it
	assemblies assemblies    // incomplete unreliable messages in parts
	restorer   restorer      // repair bunches that wait for others of their group

	// For the owner.
	wake bool // set when a message is ready, a watch fires or the connection ends; cleared by Wake
	// Set when AppendPacket may have a packet, or NextTimeout may have changed; cleared by Changed.
	changed bool
	content recovery.Content // of the last packet from AppendPacket
	watched []*channel       // channels whose watch is armed
	stats   Stats            // counters; the method Stats adds what is measured elsewhere
}

const (
	levels    = 2 + int(Bulk) // one for channel 0, and one for each priority
	bulkLevel = levels - 1
)

// level returns the level to which ch belongs.
func (c *Conn) level(ch *channel) *level {
	if ch.number == 0 {
		return &c.levels[0]
	}
	return &c.levels[1+ch.priority]
}

// A level holds the channels of one priority that have something to send.
type level struct {
	resend queue[*channel] // channels with lost entries
	fresh  queue[*channel] // channels with messages that were never sent
	queued int             // bytes of those messages
	behind int             // how many of the queued bytes wait for the ack of another channel, see After
}

// add counts bytes of ch that are queued or, if bytes is negative, no longer queued.
func (l *level) add(ch *channel, bytes int) {
	if l.queued += bytes; ch.earlier != nil {
		l.behind += bytes
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
	c.blocks, c.payloads = newBlocks(maxSmall, maxFull), newPayloadMemory()
	c.rings.most, c.ready.spare.most = maxRings, maxReadySpare
	c.flow.init(config.ReceiveLimit)
	c.skips.init(config.Random)
	return c, nil
}

// Params returns this end's limits, which Hello contains for the peer's Agree.
func (c *Conn) Params() Params { return c.config.params() }

// Agree is called when the peer's Hello arrives. It lowers each limit to the
// smaller of both ends', and adopts the peer's ack delay.
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

// Err returns why the connection ended, or nil if it has not.
func (c *Conn) Err() error { return c.err }

// Open opens a channel and returns its number. The first reliable message opens
// the channel at the peer, so it should be the first message on the channel:
// the peer drops unreliable messages that arrive before it.
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

// UsedUp reports whether this side has used all of its channel numbers. Open
// then fails; only a new connection has more numbers.
func (c *Conn) UsedUp() bool { return c.channels.ourNext > maxChannelNumber }

// Refuse makes the connection end with code as soon as the peer names a channel
// of its own that is not open here, so that the peer cannot make this side hold
// memory for its channels. With NoError, the default, the peer may open channels.
func (c *Conn) Refuse(code Code) { c.channels.refuse = code }

// SetPriority moves a channel to another priority. Channel 0 has no priority: it always goes first.
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

// closedError returns the error of a method that was called for a channel which is not open.
func (c *Conn) closedError(number uint64) error {
	return fmt.Errorf("%w: channel %d", ErrClosed, number)
}

// Untaken returns for how long flow control has held back the next reliable message of a
// channel while the peer does answer: the peer's world has stopped, or cannot keep up, and
// takes too few messages. It is 0 if flow control holds nothing back, or the path is silent.
func (c *Conn) Untaken(number uint64) time.Duration {
	if ch := c.channels.find(number); ch == nil || !c.flow.blocked || !c.heldByFlow(ch) || c.dark() {
		return 0
	}
	return c.now - c.flow.blockedAt
}

// AllReady yields the messages that wait for Next or Take, oldest first. It
// does not remove them, and they must not be changed.
func (c *Conn) AllReady(yield func(*Message) bool) { c.ready.each(yield) }

// IsOpen reports whether a channel was opened, by Open or by the peer's first
// message, and was not closed at this end.
func (c *Conn) IsOpen(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && !ch.outClosed
}

// Reliable returns how many entries of a channel's reliable buffer are in use,
// and how many it has. UE: NumOutRec and RELIABLE_BUFFER.
func (c *Conn) Reliable(number uint64) (out, slots int) {
	if ch := c.channels.find(number); ch != nil {
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

// Drained reports whether the peer has acknowledged everything that was sent reliably.
func (c *Conn) Drained() bool { return c.flow.entries == 0 }

// Held calls visit for each message in a channel's reliable buffer, oldest first, with
// the first bytes of the message and the number of entries that it takes. For a message
// whose first entry is acknowledged, these are its first 16 bytes. A message that shares
// an entry with the one before takes 0. The sum of the entries is the out of Reliable.
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

// Wake reports whether, since the last call, something happened that the owner
// may wait for: messages are ready, a watch fired or the connection ended.
func (c *Conn) Wake() bool { return once(&c.wake) }

// Changed reports whether, since the last call, a method was called after which
// AppendPacket may have a packet, NextTimeout may have changed or Wake may be true. Of the
// packets given to Receive, only those count after which AppendPacket may have a packet.
func (c *Conn) Changed() bool { return once(&c.changed) }

// once reports whether a flag is set, and clears it.
func once(flag *bool) bool {
	set := *flag
	*flag = false
	return set
}

// Content returns what the last packet from AppendPacket holds. Messages on
// channel 0 are neither play nor bulk.
func (c *Conn) Content() recovery.Content { return c.content }

// Queued returns the bytes of messages that were never sent.
func (c *Conn) Queued() (bytes int) {
	for i := range c.levels {
		bytes += c.levels[i].queued
	}
	return bytes + c.tracked.bytes
}

// FirstByte returns the first byte of each datagram for this machine.
func (c *Conn) FirstByte() byte { return Protocol }

// advanceClock sets the connection's clock to now, unless that is earlier than
// before, and returns it.
func (c *Conn) advanceClock(now time.Time) time.Duration {
	c.now = max(c.now, now.Sub(c.start))
	return c.now
}

// fail ends the connection with err, unless it has ended already, and returns why it ended.
func (c *Conn) fail(err *Error) error {
	if c.err == nil {
		c.err, c.wake, c.changed = err, true, true
	}
	return c.err
}
