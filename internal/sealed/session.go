package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// wireOverhead is the number of bytes that IPv4 and UDP add to a packet. The controller
	// counts bytes on the wire. IPv6 adds 20 bytes more, too few to matter for pacing.
	wireOverhead = 28
	// minRoom is the number of bytes that must be free in a packet before we ask the source for
	// another payload. Less room would rarely hold a message, so asking wouldn't be worth it.
	minRoom = 64
	// trimInterval is the interval at which Advance frees memory that isn't needed. Package bunch
	// uses the same interval.
	trimInterval = 10 * time.Second
)

// SessionConfig holds the settings of a session, which don't change.
type SessionConfig struct {
	// Exporter, CipherSuite, Instance and Client determine the keys. CipherSuite is a TLS 1.3
	// cipher suite, and 0 means AES-128. An instance mustn't be used twice on a connection.
	Exporter    Exporter
	CipherSuite uint16
	Instance    uint32
	Client      bool

	// Source provides the payloads to send and handles those that arrive.
	Source Source
	// Controller paces the packets. Several sessions may use it in succession, but not at the
	// same time. If it's nil, the session makes one.
	Controller *pace.Controller
	// Rate, if not nil, counts all packets that are sent.
	Rate Rate
	// Siblings, if not nil, is shared by all sessions of one owner.
	Siblings *Siblings

	// RTT is the round-trip time that QUIC has measured, or 0 if it is unknown.
	RTT time.Duration
	// Other, if not nil, returns the number of packets that have arrived over the connection's
	// other carrier. If nothing arrives over that one either, the whole path is interrupted, and
	// changing carriers wouldn't help.
	Other func() uint64
	// PlayDelay is the maximum time that feedback for play (the game's own traffic) waits for a
	// packet to piggyback on. The session assumes that the peer uses the same value.
	PlayDelay time.Duration
	// NoTrain omits the train of packets that measures the path when the session opens. It is
	// meant for a path that has been measured before.
	NoTrain bool
	// Seed determines which packet numbers are skipped. If it is zero, a random seed is used.
	Seed [32]byte
}

// A Rate limits how many bytes a connection sends over all its carriers. The session reports what
// it sends but doesn't enforce the limit. The source must stop when the limit is reached.
type Rate interface {
	// Spend counts a packet that is being sent.
	Spend(now time.Time, bytes int)
}

// A memoryTimer decides when Advance calls trim. It compares packet counts to see whether the
// session has been idle. packets is always the number of packets sent and received so far.
type memoryTimer struct {
	lastTrim          time.Duration
	packetsAtTrim     uint64 // packets at lastTrim
	packetsAtFullTrim uint64 // packets when a trim last left nothing to free
}

// dueAt returns when to trim again. ok is false if there has been nothing to free since the last
// trim, so nobody has to call Advance just for that. If Advance is called anyway, it trims every
// trimInterval, and finds nothing to do.
func (m *memoryTimer) dueAt(packets uint64) (at time.Duration, ok bool) {
	return m.lastTrim + trimInterval, packets != m.packetsAtFullTrim
}

// idle reports whether no packet was sent or received since the last trim.
func (m *memoryTimer) idle(packets uint64) bool { return packets == m.packetsAtTrim }

// trimmed is called at the end of a trim. freedAll is true if there's nothing left to free.
func (m *memoryTimer) trimmed(t time.Duration, packets uint64, freedAll bool) {
	m.lastTrim = t
	m.packetsAtTrim = packets
	if freedAll {
		m.packetsAtFullTrim = packets
	}
}

// Stats counts the events of a session.
type Stats struct {
	Sent, SentBytes         uint64 // sealed packets
	Received, ReceivedBytes uint64 // packets that were decrypted successfully
	Feedbacks               uint64 // reports sent
	Acked, Lost             uint64 // packets sent, by fate (whether they arrived or were lost)
	Spurious                uint64 // packets in both Acked and Lost, because they were acked late
	Blocked                 uint64 // how often the socket's buffer was full

	Drops [drops]uint64 // received packets that were dropped, by reason; dropNone isn't used
}

// Dropped returns the number of received packets that were dropped for any reason.
func (s Stats) Dropped() (n uint64) {
	for _, d := range s.Drops {
		n += d
	}
	return n
}

// A supply remembers what the source had when it was last asked, so that we don't ask again
// before it may have more.
type supply struct {
	empty   bool // it had nothing
	noPlay  bool // it had no play, so don't ask for play alone
	flooded bool // play has reached playBound, and the source hasn't run out of play since
}

// noteEmpty records that the source had nothing, or nothing that fit.
func (s *supply) noteEmpty() { *s = supply{empty: true, noPlay: true} }

// noteNoPlay records that the source had no play.
func (s *supply) noteNoPlay() {
	s.noPlay = true
	s.flooded = false
}

// refill records that the source may have something again.
func (s *supply) refill() {
	s.empty = false
	s.noPlay = false
}

// A Session is one end of a carrier as a pure state machine, with no clock, goroutine or lock of
// its own. It isn't safe for concurrent use, except that Seal may run alongside other methods.
//
// The owner passes packets that arrive to Receive, sends what AppendPacket (or Build and Seal)
// returns, and calls Advance when NextTimeout is due. All times are passed in as now.
type Session struct {
	config  SessionConfig
	source  Source
	control *pace.Controller

	// Time.
	epoch  time.Time     // the first now passed to a method; zero before that
	now    time.Duration // since epoch; never decreases
	memory memoryTimer

	// Keys and connection IDs.
	sealer *sealer // used only by Seal
	opener *opener
	id     ID   // the peer's ID in use
	spares []ID // the peer's unused IDs

	// State.
	state    State
	started  bool  // Start was called, and we have an ID from the peer
	err      error // why the session closed
	liveness livenessMonitor

	// Sending.
	records  records       // of packets whose fates may still change
	skips    numberSkipper // packet numbers that are never sent
	supply   supply
	lastSize int           // bytes on the wire of the last packet with a payload; 0 if none
	train    train         // measures the path when the carrier opens
	mtu      pathMTU       // limits the packet size
	loss     lossDetector  // finds lost packets
	starting siblingCount  // counts us while the controller is in state Start with bulk to send
	rttGuess time.Duration // stands in for the round trip until the controller has measured it

	// Receiving.
	reporter  reporter // decides when the peer gets feedback
	peerClock uint64   // from the peer's latest report, unwrapped; 0 if there was none

	// Scratch space. frame holds the frame being read or the report being built. A carrier replaces
	// it with its own in each turn, so the one from NewSession serves only until the first turn, or
	// a caller without a carrier.
	frame    *frame
	arrivals []arrival // from the report being read; reused

	stats Stats
}

// NewSession makes a session and derives its keys. It sends nothing before Start.
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

// makeKeys derives the keys of both directions.
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
	s.sealer, err = newSealer(suite, c.Exporter, c.Instance, out)
	if err != nil {
		return err
	}
	s.opener, err = newOpener(suite, c.Exporter, c.Instance, in)
	return err
}

// Start starts opening the carrier, using the peer's first IDs. If the session was started before,
// Start only adds the IDs.
func (s *Session) Start(now time.Time, ids ...ID) {
	t := s.tick(now)
	s.AddIDs(ids...)
	if s.started || s.state == Closed {
		return
	}
	if !s.Rotate() {
		return
	}
	s.started = true
	if !s.config.NoTrain {
		maybeSlow := s.config.RTT > nearRTT || s.config.Instance > 1
		s.train = train{unsent: trainPackets, thin: maybeSlow}
	}
	// Send a small probe before the train, because it arrives even if the train's packets turn out
	// to be too large.
	s.liveness = livenessMonitor{lastAck: t, lastAsked: t, probesDue: 1}
}

// AddIDs adds spare IDs issued by the peer.
func (s *Session) AddIDs(ids ...ID) { s.spares = append(s.spares, ids...) }

// spareIDs returns the number of the peer's unused IDs.
func (s *Session) spareIDs() int { return len(s.spares) }

// Rotate switches to one of the peer's unused IDs, so that an observer can't tell that two
// addresses belong together (RFC 9000, section 9.5). It returns false if there is no spare ID.
func (s *Session) Rotate() bool {
	if len(s.spares) == 0 {
		return false
	}
	s.id = s.spares[0]
	s.spares = s.spares[1:]
	return true
}

// Moved is called when the path has changed. The session forgets what it measured on the previous
// path (RFC 9000, section 9.4).
func (s *Session) Moved(now time.Time) {
	t := s.tick(now)
	s.control.Reset(now)
	s.mtu = pathMTU{pathStart: s.records.Next}
	s.train.moved(s.records.Next)
	s.reporter.moved()
	s.source.Moved(now)
	if s.awaitsAck() {
		s.liveness.probeNow(t)
	}
}

// Blocked is called when packets couldn't be sent because the socket's buffer was full.
func (s *Session) Blocked(now time.Time) {
	s.tick(now)
	s.stats.Blocked++
	s.control.Blocked(now)
}

// Wake is called when the source may have something to send.
func (s *Session) Wake() { s.supply.refill() }

// Advance runs the timers that are due. It returns an error if the session is closed. After
// Advance, NextTimeout is later than now, or a packet can be built.
//
// Losses are detected before the carrier can become silent, because its silence makes all
// packets in flight count as lost. Memory is freed last, when it's known what is still needed.
func (s *Session) Advance(now time.Time) error {
	t := s.tick(now)
	if s.state == Closed {
		return s.err
	}
	if at, ok := s.source.NextTimeout(); ok && !at.After(now) {
		s.source.Advance(now)
		s.Wake()
	}
	if at, ok := s.loss.dueAt(); ok && at <= t {
		s.detectLosses(t)
		s.updateController(now)
	}
	if at, ok := s.mtu.probeAt(); ok && at <= t {
		// We probe only while there's data to send, so ask the source again.
		s.Wake()
	}
	s.checkLiveness(t)
	if s.control.State() != pace.Start || s.bulkInFlight() == 0 {
		s.starting.set(false)
	}
	s.records.forget(t)
	if at, _ := s.memory.dueAt(s.packetCount()); t >= at { // even if there's nothing to free
		s.trim(t)
	}
	if s.state == Closed {
		return s.err
	}
	return nil
}

// trim frees records that aren't needed. If no packet was sent or received since the last call,
// it frees all per-packet memory.
func (s *Session) trim(t time.Duration) {
	s.records.Shrink(initialRecords)
	freeAll := s.memory.idle(s.packetCount()) && s.records.Len() == 0 && !s.reporter.hasPending()
	if freeAll {
		s.control.Rest()
		s.reporter.freeArrivals()
		s.arrivals = nil
	}
	s.memory.trimmed(t, s.packetCount(), freeAll)
}

// packetCount returns the number of packets sent and received so far.
func (s *Session) packetCount() uint64 { return s.stats.Sent + s.stats.Received }

// NextTimeout returns when Advance or AppendPacket must be called next. ok is false if no timer
// is running. The timers that Advance runs come first, in the same order.
func (s *Session) NextTimeout() (at time.Time, ok bool) {
	if s.state == Closed {
		return time.Time{}, false
	}
	var first recovery.Earliest
	// add adds a timer, due or not. addFuture ignores one that is due already, because Advance
	// can't make it stop.
	add := func(t time.Duration, ok bool) { first.Add(s.time(t), ok) }
	addFuture := func(t time.Duration, ok bool) { add(t, ok && t > s.now) }

	at, ok = s.source.NextTimeout()
	// If the source is due but may not send now, it'll be asked after the next ack, or when the
	// pacer allows it.
	first.Add(at, ok && (s.canSendPayload() || at.After(s.time(s.now))))
	add(s.loss.dueAt())
	addFuture(s.mtu.probeAt()) // a probe that's due waits for data to send
	add(s.otherCheckAt())
	add(s.silentAt())
	add(s.ptoAt())
	add(s.memory.dueAt(s.packetCount()))

	addFuture(s.liveness.overdueAt(s.pto())) // for the carrier's pinger, which doesn't stop it
	if s.started && s.records.Len() < maxRecords && s.mayReport() {
		add(s.reporter.dueAt())
	}
	if s.wantsPayload() {
		first.Add(s.control.Next(s.time(s.now), s.nextSize(), s.records.bytesInFlight))
	}
	return first.Time()
}

// MaySend reports whether the source may have bulk that the pacer allows us to send now.
func (s *Session) MaySend(now time.Time) bool {
	t := s.tick(now)
	return s.wantsPayload() && s.pacerAllows(t)
}

// Close closes the session. It sends nothing, because the owner tells the peer over QUIC.
func (s *Session) Close() { s.closeWith(&Error{Reason: "closed locally"}) }

// closeWith closes the session with err, unless it's closed already.
func (s *Session) closeWith(err error) {
	if s.state == Closed {
		return
	}
	s.err = err
	s.state = Closed
	s.abandonInFlight(s.now)
	s.starting.set(false)
}

// State returns the state of the carrier.
func (s *Session) State() State { return s.state }

// Err returns why the session closed, as an *[Error], or nil if it isn't closed.
func (s *Session) Err() error { return s.err }

// Controller returns the controller that paces this session.
func (s *Session) Controller() *pace.Controller { return s.control }

// Stats returns a copy of the counters.
func (s *Session) Stats() Stats { return s.stats }

// InFlight returns how many bytes are in flight: the size on the wire of all packets with payloads
// that are neither acked nor lost.
func (s *Session) InFlight() int { return s.records.bytesInFlight }

// bulkInFlight is like InFlight, but counts only packets with bulk (the traffic of transfers).
func (s *Session) bulkInFlight() int { return s.records.bytesInFlight - s.records.playInFlight }

// updateController is called after all acks and losses from a report, or the losses from a timer,
// have been recorded. The controller updates its estimates, which decide whether the path is fast
// enough for jumbo packets.
func (s *Session) updateController(now time.Time) {
	s.control.Feedback(now, s.records.bytesInFlight)
	s.mtu.jumbo.checkSpeed(s.control.Delivered(), s.control.Window(), s.control.Together())
}

// tick advances the session's time to now, unless it's later already, and returns the time since
// epoch.
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
