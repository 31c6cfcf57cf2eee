package vital

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Conn is one end of a connection. It has no clock: a now before that of an
// earlier call counts as the earlier one. It is not safe for concurrent use.
//
// The owner calls Receive with every packet that arrives, then Advance, and then
// AppendPacket until that returns no packet, and does so again at NextTimeout.
type Conn struct {
	cfg   Config
	stats Stats
	now   time.Time
	err   error

	// Sequence numbers count from 1 and never wrap here; their low 10 bits are encoded.
	fresh    uint64 // smallest sequence that was never sent
	received uint64 // largest sequence that was accepted, in order
	seen     uint64 // largest sequence that has arrived, accepted or not

	// Sending.
	store   recovery.Ring[record] // vital chunks by sequence, from the first unacknowledged one
	kept    ring
	queue   recovery.Ring[item]
	pending ring // data of queued items that are not vital
	due     int  // number of items at the head of queue that must be sent now
	tail    tail
	again   uint64 // vital sequences in [again, until) must be sent again
	until   uint64
	rtt     time.Duration // smoothed, from vital chunks that were sent once; 0 = unknown

	// Receiving.
	inbox   recovery.Ring[item]
	arrived ring
	handed  span // the data that Next has returned last
	starved bool // there was no room for a vital chunk; until there is some, missing chunks are not asked for

	// Timers. Zero = off.
	heard    time.Time // when a packet of the peer was last accepted
	spoke    time.Time // when a packet was last sent
	moved    time.Time // when the peer last acknowledged something new
	ackAt    time.Time // when an acknowledgement must be sent
	ask      bool      // the next packet must ask for a resend
	askAt    time.Time // earliest time of the next request for a resend
	againAt  time.Time // when a request without effect is repeated
	asked    bool      // the peer has asked for a resend, which is due at answerAt
	answerAt time.Time

	closing *CloseError // the close message that must be sent; nil = none

	// scratch holds the payload of one packet: of the one being built, or of
	// the one just decompressed.
	scratch []byte
}

// A record is a vital chunk that the peer has not acknowledged.
type record struct {
	span
	first, last time.Time // when it was sent first and last; zero = never
	resent      bool
}

// An item is a chunk in a queue. The data of a vital chunk to be sent is in kept, by its record.
type item struct {
	span
	flags    Flags
	sequence int
}

// A tail is the size of the packet that would contain the end of the queue as it is now.
type tail struct {
	bytes, chunks int
}

// NewConn returns one end of a connection whose other end already exists. It
// returns the error of Config.Validate.
func NewConn(now time.Time, cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.effective()
	c := &Conn{cfg: cfg, now: now, heard: now, spoke: now, fresh: 1, again: 1, until: 1, scratch: make([]byte, 0, maxPacket)}
	c.store.Oldest, c.store.Next = 1, 1
	c.kept.limit, c.pending.limit, c.arrived.limit = cfg.StoreBytes, cfg.QueueBytes, cfg.ReceiveBytes
	return c, nil
}

// Err returns why the connection ended: ErrTimeout, ErrNotAcked or a
// *CloseError. It returns nil if it has not ended.
func (c *Conn) Err() error { return c.err }

// Stats returns a copy of the counters.
func (c *Conn) Stats() Stats {
	s := c.stats
	s.RTT = c.rtt
	return s
}

// Outstanding returns the number of vital chunks that the peer has not
// acknowledged, including unsent ones.
func (c *Conn) Outstanding() int { return c.store.Len() }

// Queued returns the number of chunks that were never sent.
func (c *Conn) Queued() int { return c.queue.Len() }

// tick advances the time to now, unless now is earlier.
func (c *Conn) tick(now time.Time) {
	if now.After(c.now) {
		c.now = now
	}
}

// passed reports whether more than d has passed since t.
func (c *Conn) passed(t time.Time, d time.Duration) bool { return c.now.Sub(t) > d }

// interval returns the least time between two requests for a resend, or between two answers:
// a quarter more than a round trip, in which the first one should have had an effect.
func (c *Conn) interval() time.Duration { return max(minAsk, c.rtt+c.rtt/4) }

// missing reports whether a vital chunk has arrived before its predecessors,
// and there is room for these.
func (c *Conn) missing() bool { return c.seen > c.received && !c.starved }

// resendAfter returns after how long an unacknowledged chunk is sent again without a request.
func (c *Conn) resendAfter() time.Duration { return max(c.cfg.ResendAfter, c.interval()) }
