package vital

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Conn is one end of a connection. It resends our vital chunks until the peer acknowledges
// them, and delivers the peer's exactly once and in order. Everything else is best effort.
//
// A Conn does no I/O. When a packet arrives, the owner passes it to Receive, calls Advance, and
// then calls AppendPacket until there is nothing left to send. When NextTimeout is reached, it
// calls Advance and AppendPacket in the same way.
//
// There is no clock in here either, so the methods take the current time. If the caller's clock
// goes backward, the Conn's stays where it is until the caller's has caught up.
//
// It is not safe to call the methods of a Conn concurrently.
type Conn struct {
	cfg   Config
	stats Stats
	now   time.Time // latest time passed to a method
	err   error     // why the connection ended; nil while it's open

	// Sequence numbers of vital chunks. They start at 1, and they don't wrap here although
	// only their low 10 bits are sent.
	sendNext    uint64 // next one to send for the first time
	received    uint64 // we have accepted all chunks up to this one
	largestSeen uint64 // largest to arrive, whether we accepted it or not

	// Sending.
	store      recovery.Ring[unackedChunk] // vital chunks not yet acknowledged, by sequence
	storeData  ring
	queue      recovery.Ring[queuedChunk] // chunks that have never been sent
	queueData  ring                       // data of those that aren't vital
	due        int                        // chunks at the head of queue to send right away
	tail       tail
	resendNext uint64        // resend vital chunks in the range [resendNext, resendEnd)
	resendEnd  uint64        // equal to resendNext if there's nothing to resend
	rtt        time.Duration // smoothed, without chunks sent more than once; 0 if unknown

	// Receiving.
	inbox     recovery.Ring[queuedChunk] // chunks waiting for Next
	inboxData ring
	returned  span // data last returned by Next, which the next call frees

	// inboxFull is set when we drop a vital chunk because there's no room for it. We don't ask
	// for resends until Next has made room.
	inboxFull bool

	// Timers.
	lastReceived time.Time // when we last accepted a packet
	lastSent     time.Time // when we last sent one
	lastAcked    time.Time // when the peer last acknowledged something new; zero if never
	ackAt        time.Time // when to ack if no packet goes out sooner; zero if we owe no ack

	// Requests for a resend. We make and answer at most one per requestInterval.
	needResend      bool      // the next packet at or after requestAt asks for a resend
	requestAt       time.Time // earliest time of our next request
	repeatAt        time.Time // when to repeat a request that had no effect
	peerNeedsResend bool      // the peer has asked for a resend
	answerAt        time.Time // earliest time to answer

	closing *CloseError // set by Close; sent in the next packet

	// scratch is space for one packet's payload, which we're either building or have just
	// decompressed.
	scratch []byte
}

// An unackedChunk is a vital chunk that the peer hasn't acknowledged. Its data is in
// Conn.storeData.
type unackedChunk struct {
	span
	first, last time.Time // when it was first and last sent; zero if never
	resent      bool      // sent more than once
}

// A queuedChunk is a chunk waiting to be sent for the first time, or waiting for Next. If it's
// vital and waiting to be sent, it shares its data with an unackedChunk.
type queuedChunk struct {
	span
	flags    Flags
	sequence int // only set in the inbox
}

// A tail is the size so far of the packet that the newest chunks in the queue will go into. When
// that packet is full, Send makes its chunks due.
type tail struct {
	bytes, chunks int
}

// NewConn returns one end of a connection whose other end already exists. (The handshake is up
// to the caller.) If cfg is invalid, NewConn returns the error from Config.Validate.
func NewConn(now time.Time, cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.effective()
	c := &Conn{
		cfg:          cfg,
		now:          now,
		lastReceived: now,
		lastSent:     now,
		sendNext:     1,
		resendNext:   1,
		resendEnd:    1,
		storeData:    ring{limit: cfg.StoreBytes},
		queueData:    ring{limit: cfg.QueueBytes},
		inboxData:    ring{limit: cfg.ReceiveBytes},
		scratch:      make([]byte, 0, maxPacket),
	}
	c.store.Oldest = 1
	c.store.Next = 1
	return c, nil
}

// Err returns the reason the connection ended: ErrTimeout, ErrNotAcked or a *CloseError. It
// returns nil while the connection is open.
func (c *Conn) Err() error { return c.err }

// Stats returns a copy of the counters.
func (c *Conn) Stats() Stats {
	s := c.stats
	s.RTT = c.rtt
	return s
}

// Outstanding returns the number of vital chunks that the peer hasn't acknowledged yet. Chunks
// that are still waiting to be sent count too.
func (c *Conn) Outstanding() int { return c.store.Len() }

// Queued returns the number of chunks, vital or not, that have never been sent.
func (c *Conn) Queued() int { return c.queue.Len() }

// advanceClock sets the current time to now, unless that would turn it back.
func (c *Conn) advanceClock(now time.Time) {
	if now.After(c.now) {
		c.now = now
	}
}

// expired reports whether a timeout of d that started at t has been exceeded.
func (c *Conn) expired(t time.Time, d time.Duration) bool { return c.now.Sub(t) > d }

// requestInterval returns the minimum time between two of our requests for a resend, and between
// two answers to the peer's. A request should take effect within a round trip; we allow for a
// quarter more than that.
func (c *Conn) requestInterval() time.Duration { return max(minRequest, c.rtt+c.rtt/4) }

// hasGap reports whether a vital chunk has arrived ahead of one that's missing, and we have room
// for the missing one.
func (c *Conn) hasGap() bool { return c.largestSeen > c.received && !c.inboxFull }

// resendAfter returns how long we wait for a vital chunk to be acknowledged before we resend it
// without being asked.
func (c *Conn) resendAfter() time.Duration { return max(c.cfg.ResendAfter, c.requestInterval()) }
