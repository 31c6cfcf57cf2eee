package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// overheadUDP is the number of bytes that IPv4 and UDP add to a packet. The controller
	// counts bytes on the wire.
	overheadUDP = 28
	// minRoom is the minimum room, in bytes, for which the source is asked for another
	// payload.
	minRoom = 64
)

// SessionConfig holds the settings of a session, which do not change.
type SessionConfig struct {
	// Exporter, CipherSuite (as in TLS 1.3; 0 = AES-128), Instance and Client determine the
	// keys. An instance must not be used twice on a connection.
	Exporter    Exporter
	CipherSuite uint16
	Instance    uint32
	Client      bool

	// Source provides the payloads to send and handles those that arrive.
	Source Source
	// Controller paces the packets. Several sessions may use it one after another, but not
	// two at once. nil = a new one.
	Controller *pace.Controller

	// Rate counts all packets that are sent. nil = they are not counted.
	Rate Rate

	// Siblings is shared by all sessions of one owner. nil = this session is the only one.
	Siblings *Siblings

	// RTT is the round trip that QUIC has measured; 0 = unknown.
	RTT time.Duration
	// Other returns the number of packets that have arrived over the connection's other
	// carrier. If nothing arrives there either, the whole path is interrupted, and changing
	// carriers would not help. nil = there is none.
	Other func() uint64
	// PlayDelay is how long feedback for play may wait for a packet that it can share. The
	// session assumes that the peer's delay is the same.
	PlayDelay time.Duration
	// NoTrain leaves out the packets that measure a path when the session opens. It is for
	// a path that was measured before.
	NoTrain bool
	// Seed decides which packet numbers are skipped. Zero = a random one.
	Seed [32]byte
}

// A Rate limits the bytes that a connection sends over all its carriers. The session only
// counts packets. The source stops when the limit is reached.
type Rate interface {
	// Spend counts a packet that is being sent.
	Spend(now time.Time, bytes int)
}

// trimAfter is how often Advance frees memory that is not needed, as in package bunch.
const trimAfter = 10 * time.Second

// memoryTimer decides when trim runs. It compares the number of packets sent and received
// to see whether there were any.
type memoryTimer struct {
	lastTrim    time.Duration // when trim last ran
	packetsThen uint64        // number of packets at that time
	// Number of packets when trim last freed all that it can. The timer is off until there
	// is another packet.
	packetsFreed uint64
}

// supply records what the source had when it was last asked.
type supply struct {
	empty   bool // it had nothing; it is not asked again until Wake
	noPlay  bool // it had no play; it is not asked for play alone until Wake
	flooded bool // play has filled playBound, and the source has had play each time since
}

// A Session is one end of a carrier: a machine without a clock, goroutine or lock.
type Session struct {
	config  SessionConfig
	source  Source
	control *pace.Controller

	// Time.
	epoch  time.Time     // the first now that was passed to a method; zero before that
	now    time.Duration // since epoch; never decreases
	memory memoryTimer

	// Keys and ids.
	sealer *sealer // used only by Seal, which may run concurrently with the other methods
	opener *opener
	id     ID   // the peer's id in use
	spares []ID // the peer's unused ids

	// The state.
	state    State
	started  bool     // Start was called with an id
	err      error    // why the session closed
	liveness liveness // when the peer was heard, and when it must be asked for an ack

	// Sending.
	records  records       // packet numbers whose fates may still change
	skips    skips         // packet numbers that are never sent
	supply   supply        // what the source had when it was last asked
	lastSize int           // bytes on the wire of the last packet with a payload
	train    train         // the packets that measure the path at first
	mtu      mtu           // how large a packet may be
	loss     loss          // finds lost packets
	starting siblingCount  // counts the session while the controller is in its Start with bulk to send
	rttGuess time.Duration // round trip until the controller has measured it

	// Receiving.
	reporter  reporter // decides when the peer gets feedback
	peerClock uint64   // the peer's clock in its latest feedback, unwrapped; 0 = none was received

	// Scratch memory.
	frame    *frame    // for the frame being read and the report being built; lent by a carrier for each turn
	arrivals []arrival // of the feedback being read

	stats Stats
}

// NewSession makes a session with its keys. Start passes the peer's ids to it.
func NewSession(c SessionConfig) (*Session, error) {
	s := &Session{
		config:   c,
		source:   c.Source,
		control:  c.Controller,
		rttGuess: c.RTT,
		reporter: newReporter(c.PlayDelay),
	}
	if c.Siblings != nil {
		s.starting.all = &c.Siblings.starting
	}
	if s.control == nil {
		s.control = pace.New(pace.Config{})
	}
	s.control.Guess(c.RTT)
	if s.rttGuess <= 0 {
		s.rttGuess = unknownRTT
	}
	if err := s.makeKeys(); err != nil {
		return nil, err
	}
	s.skips.init(c.Seed)
	s.frame = new(frame)
	return s, nil
}

// makeKeys derives the keys of both directions from the exporter.
func (s *Session) makeKeys() error {
	c := &s.config
	out, in := toClient, toServer
	if c.Client {
		out, in = in, out
	}
	suite, err := suiteOf(c.CipherSuite)
	if err != nil {
		return err
	}
	if s.sealer, err = newSealer(suite, c.Exporter, c.Instance, out); err != nil {
		return err
	}
	s.opener, err = newOpener(suite, c.Exporter, c.Instance, in)
	return err
}

// Start begins to open the carrier, with the peer's first ids.
func (s *Session) Start(now time.Time, ids ...ID) {
	t := s.tick(now)
	s.AddIDs(ids...)
	if s.started || !s.Rotate() || s.state == Closed {
		return
	}
	s.started = true
	if !s.config.NoTrain {
		s.train = train{unsent: trainPackets, thin: s.config.RTT > nearRTT || s.config.Instance > 1}
	}
	// The first probe is small. It arrives even if the packets of the train are too large.
	s.liveness = liveness{lastAck: t, lastAsked: t, probesDue: 1}
}

// AddIDs adds spare ids issued by the peer.
func (s *Session) AddIDs(ids ...ID) { s.spares = append(s.spares, ids...) }

// Rotate changes to an unused id of the peer, so that an observer cannot link two addresses
// (RFC 9000, section 9.5). It returns false if there is no spare id.
func (s *Session) Rotate() bool {
	if len(s.spares) == 0 {
		return false
	}
	s.id = s.spares[0]
	s.spares = s.spares[1:]
	return true
}

// Moved is called when the path has changed. The session forgets its measurements of the
// previous path (RFC 9000, section 9.4).
func (s *Session) Moved(now time.Time) {
	t := s.tick(now)
	s.control.Reset(now)
	s.mtu = mtu{pathStart: s.records.Next}
	s.train.moved(s.records.Next)
	s.reporter.moved()
	s.source.Moved(now)
	if s.awaitsAck() {
		s.liveness.lastAck = t
		s.liveness.probesDue = 1
	}
}

// Blocked is called when the socket did not accept packets that were built, because its
// buffer is full.
func (s *Session) Blocked(now time.Time) {
	s.tick(now)
	s.stats.Blocked++
	s.control.Blocked(now)
}

// Wake is called when the source may have something to send.
func (s *Session) Wake() {
	s.supply.empty = false
	s.supply.noPlay = false
}

// Close ends the session. It sends nothing, because the owner informs the peer over QUIC.
func (s *Session) Close() { s.closeWith(&Error{Reason: "closed"}) }

// State returns the state of the carrier.
func (s *Session) State() State { return s.state }

// Err returns why the session is closed, an *[Error], or nil if it is not closed.
func (s *Session) Err() error { return s.err }

// Controller returns the controller that paces this session.
func (s *Session) Controller() *pace.Controller { return s.control }

// bulkInFlight returns the bytes on the wire of packets with bulk that are neither acked
// nor lost.
func (s *Session) bulkInFlight() int { return s.records.bytesInFlight - s.records.playInFlight }

// updateController is called after all acks and losses of a feedback were recorded. It lets
// the controller draw its conclusions, and updates whether the rate allows jumbo packets.
func (s *Session) updateController(now time.Time) {
	s.control.Feedback(now, s.records.bytesInFlight)
	s.mtu.jumbo.checkSpeed(s.control.Delivered(), s.control.Window(), s.control.Together())
}

// InFlight returns the bytes on the wire of packets with payloads that are neither acked
// nor lost.
func (s *Session) InFlight() int { return s.records.bytesInFlight }

// end closes the session with err. Only the first call has an effect.
func (s *Session) closeWith(err error) {
	if s.state == Closed {
		return
	}
	s.err = err
	s.state = Closed
	s.abandonInFlight(s.now)
	s.starting.set(false)
}

// tick returns now as time since epoch. The result never decreases.
func (s *Session) tick(now time.Time) time.Duration {
	if s.epoch.IsZero() {
		s.epoch = now
		s.reporter.arrivals.offset = now.Sub(clockOrigin)
	}
	s.now = max(s.now, now.Sub(s.epoch))
	return s.now
}

// time converts a time since epoch to a time.Time.
func (s *Session) time(t time.Duration) time.Time { return s.epoch.Add(t) }

// Advance runs the timers that are due. It returns an error if the session is closed.
// Afterwards NextTimeout is after now, or a packet can be built.
func (s *Session) Advance(now time.Time) error {
	t := s.tick(now)
	if s.state == Closed {
		return s.err
	}
	if at, ok := s.source.NextTimeout(); ok && !at.After(now) {
		s.source.Advance(now)
		s.Wake()
	}
	if s.loss.Next > 0 && s.loss.Next <= t {
		s.detectLosses(t)
		s.updateController(now)
	}
	if s.mtu.shrunkAt > 0 && s.mtu.retryAt <= t {
		s.Wake()
	}
	s.checkLiveness(t)
	if s.control.State() != pace.Start || s.bulkInFlight() == 0 {
		s.starting.set(false)
	}
	s.records.forget(t)
	if t >= s.memory.lastTrim+trimAfter {
		s.trim(t)
	}
	if s.state == Closed {
		return s.err
	}
	return nil
}

// trim frees memory of records that is not needed. After trimAfter without a packet, it
// frees all memory of packets.
func (s *Session) trim(t time.Duration) {
	s.records.Shrink(initialRecords)
	if s.packetCount() == s.memory.packetsThen && s.records.Len() == 0 && !s.reporter.hasPending() {
		s.control.Rest()
		s.reporter.arrivals.free()
		s.arrivals = nil
		s.memory.packetsFreed = s.packetCount()
	}
	s.memory.lastTrim = t
	s.memory.packetsThen = s.packetCount()
}

// packets returns the number of packets sent and received.
func (s *Session) packetCount() uint64 { return s.stats.Sent + s.stats.Received }

// NextTimeout returns the time of the next call of Advance or AppendPacket. ok is false if
// no timer runs.
func (s *Session) NextTimeout() (at time.Time, ok bool) {
	if s.state == Closed {
		return time.Time{}, false
	}
	at, ok = s.source.NextTimeout()
	if ok && !s.canSendPayload() && !at.After(s.time(s.now)) {
		// The source waits but may not send now. It is asked again after an ack or when the
		// pacer allows it.
		ok = false
	}
	var first recovery.Earliest
	first.Add(at, ok)
	earlier := func(t time.Duration, is bool) { first.Add(s.time(t), is) }
	earlier(s.loss.Next, s.loss.Next > 0)
	earlier(s.ptoAt())
	earlier(s.silentAt())
	earlier(s.watchAt())
	if at, ok := s.liveness.overdueAt(s.pto()); ok && at > s.now {
		earlier(at, true)
	}
	earlier(s.memory.lastTrim+trimAfter, s.packetCount() != s.memory.packetsFreed)
	earlier(s.mtu.retryAt, s.mtu.shrunkAt > 0 && s.mtu.retryAt > s.now)
	if s.started && s.records.Len() < maxRecords && s.mayReport() {
		earlier(s.reporter.dueAt())
	}
	if s.wantsPayload() {
		first.Add(s.control.Next(s.time(s.now), s.nextSize(), s.records.bytesInFlight))
	}
	return first.Time()
}

// MaySend reports whether the source may have bulk that the pacer allows to be sent now.
func (s *Session) MaySend(now time.Time) bool {
	t := s.tick(now)
	return s.wantsPayload() && s.pacerAllows(t)
}
