package vital

import "time"

// Conn is one end of a connection. It has no clock: now is an argument, and one that runs back counts as the latest seen.
// It is not safe for concurrent use.
//
// Its owner gives it every packet that arrives (Receive), then calls Advance, then AppendPacket until that has nothing,
// and comes back at NextTimeout.
type Conn struct {
	cfg   Config
	stats Stats
	now   time.Time
	err   error

	// Sequences count from 1 and never wrap here; the wire has their low 10 bits.
	acked    uint64 // the last that the peer acknowledged
	fresh    uint64 // the first that was never sent
	received uint64 // the last that was taken in order
	seen     uint64 // the highest that arrived, taken or not

	// Sending. Record i is of vital sequence acked + 1 + i.
	store   queue[record]
	kept    ring
	queue   queue[item]
	pending ring // data of the items that are not vital
	due     int  // items at the head of queue that may not wait
	tail    tail
	again   uint64 // vital sequences from again to before until are to be sent again
	until   uint64
	rtt     time.Duration // smoothed, from vital chunks sent once; 0 = not known

	// Receiving.
	inbox   queue[item]
	arrived ring
	handed  span // the data that Next returned last
	starved bool // a vital chunk found no room

	// Timers. Zero = off.
	heard    time.Time // a packet of the peer was taken
	spoke    time.Time // a packet was sent
	moved    time.Time // the peer acknowledged something new
	ackAt    time.Time // an acknowledgement leaves
	ask      bool      // the next packet asks for a resend
	askAt    time.Time // before this it does not
	againAt  time.Time // the last request has had no effect by then
	asked    bool      // the peer asked, and is answered at answerAt
	answerAt time.Time

	closing *CloseError // to be sent

	// scratch is the payload of one packet: that being built, or that just decompressed.
	scratch []byte
}

// record is a vital chunk that is not acknowledged.
type record struct {
	span
	first, last time.Time // when it was sent; zero = not yet
	resent      bool
}

// item is a chunk in a queue. What is to be sent of a vital one is in store.
type item struct {
	span
	flags    Flags
	sequence int
}

// tail is the packet that would end the queue as it is.
type tail struct {
	bytes, chunks int
}

// NewConn returns one end of a connection whose other end exists. The error is that of Config.Validate.
func NewConn(now time.Time, cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.effective()
	c := &Conn{cfg: cfg, now: now, heard: now, spoke: now, fresh: 1, again: 1, until: 1, scratch: make([]byte, 0, maxPacket)}
	c.kept.limit, c.pending.limit, c.arrived.limit = cfg.StoreBytes, cfg.QueueBytes, cfg.ReceiveBytes
	return c, nil
}

// Err returns what ended the connection: ErrTimeout, ErrNotAcked or a *CloseError. Nil: nothing did.
func (c *Conn) Err() error { return c.err }

// Stats returns a copy of the counters.
func (c *Conn) Stats() Stats {
	s := c.stats
	s.RTT = c.rtt
	return s
}

// Outstanding returns how many vital chunks are not acknowledged, unsent ones included.
func (c *Conn) Outstanding() int { return c.store.len }

// Queued returns how many chunks wait to be sent for the first time.
func (c *Conn) Queued() int { return c.queue.len }

// tick takes the time.
func (c *Conn) tick(now time.Time) {
	if now.After(c.now) {
		c.now = now
	}
}

// passed reports whether more than d went by since t.
func (c *Conn) passed(t time.Time, d time.Duration) bool { return c.now.Sub(t) > d }

// interval returns the least time between two requests for a resend, or two answers: a quarter more than a round trip, which the first one
// takes to have an effect.
func (c *Conn) interval() time.Duration { return max(minAsk, c.rtt+c.rtt/4) }

// missing reports whether a vital chunk arrived whose predecessors did not, and could be taken.
func (c *Conn) missing() bool { return c.seen > c.received && !c.starved }

// resendAfter is after how long an unacknowledged chunk is sent again, unasked.
func (c *Conn) resendAfter() time.Duration { return max(c.cfg.ResendAfter, c.interval()) }
