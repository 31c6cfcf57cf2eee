package vital

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Conn is one end of a connection. It has no clock: its methods take the time as now, and treat a time before the latest one as the
// latest. It is not safe for concurrent use.
//
// The owner gives it every packet that arrives (Receive), then calls Advance, then AppendPacket until that returns no packet, and calls
// again at NextTimeout.
type Conn struct {
	cfg   Config
	stats Stats
	now   time.Time
	err   error

	// Sequence numbers count from 1 and never wrap here; the wire carries their low 10 bits.
	fresh    uint64 // smallest sequence that was never sent
	received uint64 // largest sequence that was taken, in order
	seen     uint64 // largest sequence that arrived, taken or not

	// Sending.
	store   recovery.Ring[record] // vital chunks by sequence, from the first that the peer has not acknowledged
	kept    ring
	queue   recovery.Ring[item]
	pending ring // data of queued items that are not vital
	due     int  // number of items at the head of queue that must leave now
	tail    tail
	again   uint64 // vital sequences in [again, until) must be sent again
	until   uint64
	rtt     time.Duration // smoothed, measured by vital chunks that were sent once; 0 = not known

	// Receiving.
	inbox   recovery.Ring[item]
	arrived ring
	handed  span // data that Next returned last
	starved bool // a vital chunk found no room; until there is some, missing chunks are not asked for

	// Timers. Zero = off.
	heard    time.Time // when a packet of the peer was last taken
	spoke    time.Time // when a packet was last sent
	moved    time.Time // when the peer last acknowledged something new
	ackAt    time.Time // when an acknowledgement must leave
	ask      bool      // the next packet must ask for a resend
	askAt    time.Time // earliest time of the next request for a resend
	againAt  time.Time // when a request without effect is repeated
	asked    bool      // the peer asked for a resend, which leaves at answerAt
	answerAt time.Time

	closing *CloseError // close message that must be sent; nil = none

	// scratch holds the payload of one packet: of the one being built, or of the one just decompressed.
	scratch []byte
}

// record is a vital chunk that the peer has not acknowledged.
type record struct {
	span
	first, last time.Time // when it was sent first and last; zero = never
	resent      bool
}

// item is a chunk in a queue. The data of a vital one to be sent is in kept, by its record.
type item struct {
	span
	flags    Flags
	sequence int
}

// tail is the size of the packet that would carry the end of the queue as it is now.
type tail struct {
	bytes, chunks int
}

// NewConn returns one end of a connection whose other end exists already. It returns the error of Config.Validate.
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

// Err returns why the connection ended: ErrTimeout, ErrNotAcked or a *CloseError. It returns nil while the connection lives.
func (c *Conn) Err() error { return c.err }

// Stats returns a copy of the counters.
func (c *Conn) Stats() Stats {
	s := c.stats
	s.RTT = c.rtt
	return s
}

// Outstanding returns the number of vital chunks that the peer has not acknowledged, unsent ones included.
func (c *Conn) Outstanding() int { return c.store.Len() }

// Queued returns the number of chunks that wait to be sent for the first time.
func (c *Conn) Queued() int { return c.queue.Len() }

// tick advances the time to now, unless now is earlier.
func (c *Conn) tick(now time.Time) {
	if now.After(c.now) {
		c.now = now
	}
}

// passed reports whether more than d has passed since t.
func (c *Conn) passed(t time.Time, d time.Duration) bool { return c.now.Sub(t) > d }

// interval returns the least time between two requests for a resend, or two answers: a quarter more than a round trip, the time in which
// the first one shows an effect.
func (c *Conn) interval() time.Duration { return max(minAsk, c.rtt+c.rtt/4) }

// missing reports whether a vital chunk has arrived before its predecessors, for which there is room.
func (c *Conn) missing() bool { return c.seen > c.received && !c.starved }

// resendAfter returns the time after which an unacknowledged chunk is sent again without a request.
func (c *Conn) resendAfter() time.Duration { return max(c.cfg.ResendAfter, c.interval()) }
