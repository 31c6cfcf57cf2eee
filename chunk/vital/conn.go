package vital

import "time"

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

	// Sending.
	store store         // vital chunks not yet acknowledged
	queue queue         // chunks that have never been sent
	rtt   time.Duration // smoothed, without chunks sent more than once; 0 if unknown

	// Receiving. Sequence numbers are as in store.
	inbox       inbox  // chunks waiting for Next
	received    uint64 // we have accepted all vital chunks up to this one
	largestSeen uint64 // largest to arrive, whether we accepted it or not

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

// NewConn returns one end of a connection whose other end already exists. (The handshake is up
// to the caller.) If cfg is invalid, NewConn returns the error from Config.Validate.
func NewConn(now time.Time, cfg Config) (*Conn, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.effective()
	return &Conn{
		cfg:          cfg,
		now:          now,
		lastReceived: now,
		lastSent:     now,
		store:        newStore(cfg.StoreBytes),
		queue:        queue{data: ring{limit: cfg.QueueBytes}},
		inbox:        inbox{data: ring{limit: cfg.ReceiveBytes}},
		scratch:      make([]byte, 0, maxPacket),
	}, nil
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
func (c *Conn) Outstanding() int { return c.store.chunks.Len() }

// Queued returns the number of chunks, vital or not, that have never been sent.
func (c *Conn) Queued() int { return c.queue.chunks.Len() }

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
func (c *Conn) hasGap() bool { return c.largestSeen > c.received && !c.inbox.full }

// resendAfter returns how long we wait for a vital chunk to be acknowledged before we resend it
// without being asked.
func (c *Conn) resendAfter() time.Duration { return max(c.cfg.ResendAfter, c.requestInterval()) }
