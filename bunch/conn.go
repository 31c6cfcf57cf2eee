package bunch

import (
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Conn is one end of a connection. It has no clock, goroutine or lock of its own, so its owner
// passes the time to its methods and must not call them concurrently. Time never goes backwards:
// if now is before the time of an earlier call, the earlier time is used.
type Conn struct {
	config    Config
	limits    Params // our limits until Agree, then the smaller of the two ends' limits
	start     time.Time
	now       time.Duration // since start; never decreases
	trimmedAt time.Duration // when trim last ran
	err       error         // why the connection ended; nil while it's open

	// Queues of messages to be sent.
	channels    channels
	unanswered  unansweredCloses   // our closes that the peer hasn't answered
	levels      [levels]level      // channels with something to send, highest priority first
	blocks      blocks             // memory for payloads that are queued or in flight
	rings       spares[[]entry]    // empty reliable buffers for reuse
	unreliables backlog            // how much is queued in unreliable messages
	tracked     tracked            // queued tracked messages, and the fates of sent ones
	cork        cork               // holds back new messages during a tick
	saturation  saturationDetector // detects a path or a rate that doesn't keep up
	expiry      expiry             // which unreliable and tracked messages are too old to send

	// What the owner holds back; set by Hold.
	holdUnreliable bool // unreliable and tracked messages
	holdBulk       bool

	// Packets.
	build          builder            // the packet that AppendPacket is building
	sent           sentPackets        // records of the packets sent
	skips          skips              // picks packet numbers that are never sent
	keepAliveDue   bool               // set by Advance
	lastUnreliable []placedUnreliable // unreliable bunches of the last packet, for Unsent
	repeats        repeats            // small calls that the next packet repeats
	repairs        repairs            // repair bunches for the end of a transfer

	// Path.
	path         pathState          // the carrier's last Path, and packets sent on earlier ones
	congestion   recovery.Gate      // limits bytes in flight, unless the carrier reports fates
	loss         loss               // detects lost packets, and probes
	resends      resendDebt         // limits retransmissions of play
	peerAckDelay time.Duration      // maximum delay of the peer's acks; our own until Agree
	blackHole    recovery.BlackHole // notices if the path drops all but small packets

	// Receiving.
	received      received      // packets received, and when to acknowledge them
	currentPacket uint64        // number of the packet that Receive is handling
	ready         readyList     // messages for Next and Take
	flow          flow          // limits of reliable bytes, in both directions
	payloads      payloadMemory // memory of payloads until the owner takes their messages
	unorderedRun  run           // scratch space for deliverUnordered
	assemblies    assemblies    // unreliable messages that have arrived only in part
	restorer      restorer      // repair bunches that don't suffice yet to restore entries

	// For the owner.
	wake    bool             // there's a reason for the owner to wake up; cleared by Wake
	changed bool             // there may be a packet or a new NextTimeout; cleared by Changed
	content recovery.Content // of the last packet from AppendPacket
	watched []*channel       // channels whose watch is armed
	stats   Stats            // counters; the method Stats adds what is kept elsewhere
}

const (
	levels    = 2 + int(Bulk) // one for channel 0, and one for each priority
	bulkLevel = levels - 1
)

// level returns the level that ch belongs to.
func (c *Conn) level(ch *channel) *level {
	if ch.number == 0 {
		return &c.levels[0]
	}
	return &c.levels[1+ch.priority]
}

// hasBulk reports whether there may be bulk to send. Repair bunches are only for carriers that
// report fates.
func (c *Conn) hasBulk() bool {
	lv := &c.levels[bulkLevel]
	return lv.resend.len()+lv.unsent.len() > 0 || c.path.Fates
}

// A level holds the channels of one priority that have something to send.
type level struct {
	resend   queue[*channel] // channels with lost entries
	unsent   queue[*channel] // channels with messages that were never sent
	queued   int             // bytes of messages that were never sent
	deferred int             // queued bytes that wait for another channel's acks (see Conn.After)
}

// add is called when the number of bytes queued on ch changes. bytes is the change,
// which may be negative.
func (l *level) add(ch *channel, bytes int) {
	l.queued += bytes
	if ch.predecessor != nil {
		l.deferred += bytes
	}
}

// NewConn returns one end of a connection that starts at now, without sending anything. It returns
// an error if config is not valid. Channel 0 is open from the start; others may be opened at once,
// unless the peer's owner has called Refuse.
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

// Params returns this end's limits. Hello carries them to the peer, whose owner passes them to
// Agree.
func (c *Conn) Params() Params { return c.config.params() }

// Agree applies the limits in the peer's Hello. Each limit becomes the smaller of the two ends'
// limits, except that the peer may delay its acks for as long as it says. Call it before anything
// is sent on a channel other than 0. If a limit is invalid, Agree returns an error and changes
// nothing, and the owner should end the connection.
func (c *Conn) Agree(peer Params) error {
	if err := peer.validate(); err != nil {
		return err
	}
	c.changed = true
	c.limits = c.limits.intersect(peer)
	c.channels.limit = c.limits.MaxChannels
	c.peerAckDelay = peer.AckDelay
	return nil
}

// Err returns why the connection ended, as an *[Error], or nil if it is still open. Once it has
// ended, Open, Send, Close, Receive and Advance return the same error, and nothing more is sent.
func (c *Conn) Err() error { return c.err }

// Open opens a channel and returns its number. The peer learns of the channel from its first
// reliable message, and drops unreliable messages that arrive earlier. The first message should
// therefore be reliable.
//
// Open fails if Config.MaxChannels of this side are open, if the numbers are exhausted (see
// NumbersExhausted), if the connection has ended, or, except for Bulk, beyond Config.SendLimit.
// Only the latter ends the connection, and only with OverflowClose.
func (c *Conn) Open(p Priority) (uint64, error) {
	if c.err != nil {
		return 0, c.err
	}
	if p > Bulk {
		return 0, unknownPriority(p)
	}
	if p != Bulk && c.OverSendLimit() {
		return 0, c.overSendLimit()
	}
	ch, err := c.channels.create(p)
	if err != nil {
		return 0, err
	}
	return ch.number, nil
}

// NumbersExhausted reports whether this side has no channel numbers left. It then can't open any
// more channels on this connection, because numbers aren't reused.
func (c *Conn) NumbersExhausted() bool { return c.channels.exhausted() }

// Refuse forbids the peer to open channels, so that it cannot make us hold memory for them. If it
// opens one nevertheless, the connection ends with code. If code is NoError, which is the default,
// the peer may open channels.
func (c *Conn) Refuse(code Code) { c.channels.refuse = code }

// SetPriority changes a channel's priority, also for what is queued on it. It returns an error for
// channel 0, which always goes first, and ErrClosed for a channel that isn't open. The peer isn't
// told: each end sends by priorities of its own.
func (c *Conn) SetPriority(number uint64, p Priority) error {
	ch := c.channels.find(number)
	switch {
	case ch == nil:
		return c.closedError(number)
	case number == 0:
		return errors.New("bunch: channel 0 cannot have a priority, because it always goes first")
	case p > Bulk:
		return unknownPriority(p)
	}
	from := c.level(ch)
	held := ch.memory()
	c.addHeld(ch, -held)
	ch.priority = p
	c.addHeld(ch, held)
	to := c.level(ch)
	if from == to {
		return nil
	}
	from.add(ch, -ch.queuedBytes)
	to.add(ch, ch.queuedBytes)
	isChannel := func(other *channel) bool { return other == ch }
	// Move it to the end of the queues of its new level.
	from.resend.remove(isChannel)
	from.unsent.remove(isChannel)
	ch.inUnsentQueue, ch.inResendQueue = false, false
	c.schedule(ch)
	c.changed = true
	return nil
}

// unknownPriority returns the error for a priority that doesn't exist.
func unknownPriority(p Priority) error {
	return fmt.Errorf("bunch: unknown priority %d; it must be from High (%d) to Bulk (%d)", p, High, Bulk)
}

// closedError returns the error for a channel that isn't open, or that this end has closed.
func (c *Conn) closedError(number uint64) error {
	if c.channels.isUnseen(number) {
		return fmt.Errorf("%w: channel %d was never opened", ErrClosed, number)
	}
	return fmt.Errorf("%w: channel %d", ErrClosed, number)
}

// BlockedFor returns how long flow control has kept the next reliable message of a channel from
// being sent. It returns 0 if flow control does not hold the message back, or if the peer
// has stopped answering.
//
// If it has been long, the peer's owner does not take messages fast enough, for example because its
// world has stopped or fallen behind.
func (c *Conn) BlockedFor(number uint64) time.Duration {
	ch := c.channels.find(number)
	if ch == nil || !c.flow.blocked || !c.heldByFlow(ch) || c.inOutage() {
		return 0
	}
	return c.now - c.flow.blockedAt
}

// AllReady yields the messages that wait for Next or Take, oldest first, without removing
// them. The caller must not change them.
func (c *Conn) AllReady(yield func(*Message) bool) { c.ready.each(yield) }

// IsOpen reports whether a channel is open at this end. Channels are opened by Open or by the
// peer's first message, and closed by Close or in answer to the peer's close.
func (c *Conn) IsOpen(number uint64) bool {
	ch := c.channels.find(number)
	return ch != nil && !ch.outClosed
}

// OverSendLimit reports whether the reliable messages of play hold more than Config.SendLimit,
// so that Open and Send fail.
func (c *Conn) OverSendLimit() bool { return c.flow.held > c.config.SendLimit }

// Reliable returns the number of entries in use in a channel's reliable buffer, and the number
// of entries that the buffer has (Unreal: NumOutRec and RELIABLE_BUFFER).
func (c *Conn) Reliable(number uint64) (out, slots int) {
	if ch := c.channels.find(number); ch != nil {
		out = ch.outstanding()
	}
	return out, slotsOf(number, c.limits.ReliableBuffer)
}

// slotsOf returns the number of entries that the reliable buffer of a channel has. slots is
// that number for all channels but 0.
func slotsOf(number uint64, slots int) int {
	if number == 0 {
		return min(slots, controlBuffer)
	}
	return slots
}

// Drained reports whether the peer has acknowledged all reliable messages.
func (c *Conn) Drained() bool { return c.flow.entries == 0 }

// Held calls visit for each message in a channel's reliable buffer, oldest first. head is the
// beginning of the message. entries is the number of entries that the message takes, or 0 if it
// shares an entry with the message before it. The sum of all entries is the out of Reliable.
//
// If the first entry of a message has been acknowledged, head is at most the first 16
// bytes of the message.
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
			// The first entry has been acknowledged and freed.
			head = ch.ackedHead.bytes[:ch.ackedHead.n]
		}
		entries := ch.runFrom(n)
		visit(head, entries)
		n += uint64(entries)
	}
}

// visitWhole calls visit for each message in a whole bunch.
func visitWhole(b []byte, visit func(head []byte, entries int)) {
	if len(b) == 0 {
		visit(nil, 1) // a close without a message
	}
	entries := 1 // the first message counts for all that share the entry
	for len(b) > 0 {
		size, n := consumeVarint(b)
		b = b[n:]
		visit(b[:size], entries)
		b = b[size:]
		entries = 0
	}
}

// Wake reports whether anything that an owner may be waiting for has happened since the last call:
// messages became ready, a watch fired, or the connection ended.
func (c *Conn) Wake() bool { return testAndClear(&c.wake) }

// Changed reports whether, since the last call of Changed, a method may have given AppendPacket
// a packet to build, changed NextTimeout or made Wake true. Receive only sets it if there may be a
// packet to send.
func (c *Conn) Changed() bool { return testAndClear(&c.changed) }

// testAndClear returns a flag and clears it.
func testAndClear(flag *bool) bool {
	set := *flag
	*flag = false
	return set
}

// Content returns what kinds of traffic the last packet from AppendPacket carries. Messages on
// channel 0 are neither play nor bulk.
func (c *Conn) Content() recovery.Content { return c.content }

// Queued returns the number of message bytes that were never sent.
func (c *Conn) Queued() (bytes int) {
	for i := range c.levels {
		bytes += c.levels[i].queued
	}
	return bytes + c.tracked.bytes
}

// FirstByte returns the byte that every packet begins with. It's a method because the interface
// Play of internal/link, through which package rpc drives a Conn, requires it.
func (c *Conn) FirstByte() byte { return Protocol }

// advanceClock sets the connection's clock to now, unless that would turn it back, and returns
// it.
func (c *Conn) advanceClock(now time.Time) time.Duration {
	c.now = max(c.now, now.Sub(c.start))
	return c.now
}

// fail ends the connection with err, or returns the earlier error if it has ended already.
func (c *Conn) fail(err *Error) error {
	if c.err == nil {
		c.err = err
		c.wake = true
		c.changed = true
	}
	return c.err
}
