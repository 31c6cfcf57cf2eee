package vital

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Conn is one end of a connection.
//
// The owner calls Receive with every packet that arrives, then Advance, and then
// AppendPacket until it returns no packet. It does the same again at NextTimeout.
//
// A Conn has no clock; its methods take the time. A now earlier than that of a previous
// call counts as the previous one. A Conn is not safe for concurrent use.
type Conn struct {
	cfg   Config
	stats Stats
	now   time.Time // latest time passed to a method
	err   error     // why the connection ended; nil = it has not

	// Sequence numbers of vital chunks. They count from 1 and never wrap here. The low 10 bits
	// are sent.
	unsent   uint64 // smallest sequence that was never sent
	received uint64 // largest sequence accepted; all before it were accepted as well
	seen     uint64 // largest sequence that arrived, accepted or not

	// Sending.
	store      recovery.Ring[record] // unacknowledged vital chunks, by sequence
	storeData  ring
	queue      recovery.Ring[item] // chunks that were never sent
	queueData  ring                // data of items in queue that are not vital
	due        int                 // number of items at the head of queue that must be sent now
	tail       tail
	resendNext uint64 // vital chunks from resendNext up to, but not including, resendEnd must be resent
	resendEnd  uint64
	rtt        time.Duration // smoothed, from vital chunks that were sent once; 0 = unknown

	// Receiving.
	inbox     recovery.Ring[item] // chunks waiting for Next
	inboxData ring
	returned  span // data last returned by Next
	starved   bool // a vital chunk was dropped for want of room; no requests until there is room

	// Timers. Zero = off.
	lastReceived    time.Time // when a packet of the peer was last accepted
	lastSent        time.Time // when a packet was last sent
	lastAcked       time.Time // when the peer last acknowledged something new
	ackAt           time.Time // when an acknowledgement must be sent
	needResend      bool      // a packet from requestAt on must ask for a resend
	requestAt       time.Time
	repeatAt        time.Time // when a request without effect is repeated
	peerNeedsResend bool      // the peer asked for a resend, which is due at answerAt
	answerAt        time.Time

	closing *CloseError // close message to send; nil = none

	// scratch holds the payload of one packet, either being built or just decompressed.
	scratch []byte
}

// A record is a vital chunk that the peer has not acknowledged. Its data is in Conn.storeData.
type record struct {
	span
	first, last time.Time // when it was first and last sent; zero = never
	resent      bool      // sent more than once
}

// An item is a chunk in a queue. A vital chunk waiting to be sent also has a record.
type item struct {
	span
	flags    Flags
	sequence int
}

// A tail is the size of the packet that would contain the end of the queue as it is now.
// With it, Send knows when that packet is full.
type tail struct {
	bytes, chunks int
}

// NewConn returns one end of a connection whose other end already exists. It returns the
// error of Config.Validate if cfg is invalid.
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
		unsent:       1,
		resendNext:   1,
		resendEnd:    1,
		storeData:    ring{limit: cfg.StoreBytes},
		queueData:    ring{limit: cfg.QueueBytes},
		inboxData:    ring{limit: cfg.ReceiveBytes},
		scratch:      make([]byte, 0, maxPacket),
	}
	c.store.Oldest, c.store.Next = 1, 1
	return c, nil
}

// Err returns the reason why the connection ended: ErrTimeout, ErrNotAcked or a
// *CloseError. It returns nil if the connection has not ended.
func (c *Conn) Err() error { return c.err }

// Stats returns a copy of the counters.
func (c *Conn) Stats() Stats {
	s := c.stats
	s.RTT = c.rtt
	return s
}

// Outstanding returns the number of vital chunks not acknowledged by the peer,
// including unsent ones.
func (c *Conn) Outstanding() int { return c.store.Len() }

// Queued returns the number of chunks that were never sent.
func (c *Conn) Queued() int { return c.queue.Len() }

// tick advances the time to now. It ignores a now earlier than the current time.
func (c *Conn) tick(now time.Time) {
	if now.After(c.now) {
		c.now = now
	}
}

// passed reports whether more than d has passed since t.
func (c *Conn) passed(t time.Time, d time.Duration) bool { return c.now.Sub(t) > d }

// interval returns the minimum time between two requests for a resend, or between two
// answers. It is a quarter more than a round trip, after which the first request should
// have had an effect.
func (c *Conn) interval() time.Duration { return max(minRequest, c.rtt+c.rtt/4) }

// hasGap reports whether a vital chunk arrived before its predecessors and there
// is room for these.
func (c *Conn) hasGap() bool { return c.seen > c.received && !c.starved }

// resendAfter returns the time after which an unacknowledged chunk is resent without a request.
func (c *Conn) resendAfter() time.Duration { return max(c.cfg.ResendAfter, c.interval()) }
