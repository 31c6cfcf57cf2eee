package rpc

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/statnet"
)

const (
	// beginDelay is how long the first carrier waits before it sends its train, the burst of
	// packets that measures the path's rate (see package sealed). This gives QUIC time to send
	// Welcome and Join. Behind the train, they would take another 170 ms at 1 Mbit/s.
	beginDelay = 2 * time.Millisecond
	// moreIDs is the number of spare ids that we send to a peer that asks for some.
	moreIDs = 2
)

// SealedStats is the state of a connection's newest sealed carrier, with the counters of all
// sealed carriers that the connection has had.
type SealedStats struct {
	// State is one of:
	//
	//	off      Config.Sealed is not set at both ends, or the connection does not use QUIC
	//	opening  none of its packets has been acknowledged yet
	//	open     in use
	//	silent   no packet has been acknowledged lately, so QUIC carries everything
	//	closed   ended, for instance after 10 s of silence; the client opens the next carrier later
	State string

	// Carries reports whether everything that we send goes through the sealed carrier rather
	// than over QUIC. See [Conn.Sealed].
	Carries bool

	// Err is why the newest carrier closed, or nil if it's not closed.
	Err error

	Carriers              uint32 // carriers begun so far, including the newest
	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64
	PacketsAcked          uint64
	PacketsLost           uint64
	SpuriousLosses        uint64 // packets in PacketsLost that turned out to have arrived
	Discarded             uint64 // packets dropped on arrival, for whatever reason

	// Rate is the number of bytes per second that we may send, as measured on the path. Until
	// there is a measurement, it's a guess.
	Rate int

	// Window is the number of bytes that may be in flight: the measured capacity of the path,
	// plus a part of its queue.
	Window int

	// MaxPacket is the current maximum size of a packet in bytes. It's 8,952 while bulk uses
	// packets of that size. See [Config].NoJumbo.
	MaxPacket int
}

// add adds the counters of another carrier.
func (s *SealedStats) add(c sealed.CarrierStats) {
	s.Carriers++
	s.PacketsIn += c.Received
	s.PacketsOut += c.Sent
	s.BytesIn += c.ReceivedBytes
	s.BytesOut += c.SentBytes
	s.PacketsAcked += c.Acked
	s.PacketsLost += c.Lost
	s.SpuriousLosses += c.Spurious
	s.Discarded += c.Dropped() + c.InboxFull + c.FromOthers
}

// cells returns the cells of a table row that shows which carrier is in use, and why.
func (s *SealedStats) cells() []string {
	switch {
	case s.Carries:
		return []string{
			"sealed",
			statnet.Rate(float64(s.Rate)),
			"packets of up to " + statnet.Count(s.MaxPacket) + " B",
			statnet.Count(s.PacketsLost) + " of " + statnet.Count(s.PacketsOut) + " lost",
		}
	case s.State == "off":
		return []string{"QUIC", "sealed is off: Config.Sealed is not set at both ends, or the carrier is not QUIC"}
	case s.Err != nil:
		return []string{"QUIC", "sealed is " + s.State, s.Err.Error()}
	}
	return []string{"QUIC", "sealed is " + s.State}
}

// A sealedCarrier sends what a connection's machines produce in sealed packets, which share
// QUIC's socket.
//
// It uses a sequence of carriers, which the protocol calls instances. The first begins at the end
// of the handshake, and whenever one closes, the client opens the next. While an instance is open
// and isn't silent, it carries everything, and otherwise QUIC does. While there is nothing to
// send, it has no goroutine.
//
// Unless noted otherwise, the methods must be called on the world's goroutine or, before
// Join, on the handshake's.
type sealedCarrier struct {
	conn      *Conn
	quic      *quicconn.Carrier
	attention atomic.Bool // set by wake; the next Dispatch must call maintain
	pinging   atomic.Bool // the goroutine that ping has started is still running

	carriers  carriers
	instances control.Instances // which instances have begun and ended, as agreed with the peer

	// Server only: the instance that the client wants to open, but which has to wait until
	// the previous one has ended. 0 if none is waiting.
	pending      uint32
	idsRequested bool // the client has asked for spare ids of that instance

	state sealed.State // of the newest carrier, as last logged

	// Controls congestion. Each instance passes what it has learned about the path to the next one
	// this way. While there is a carrier, the controller is guarded by the link's lock.
	controller *pace.Controller
}

// newSealedCarrier returns nil if the connection has no socket for sealed packets, because it
// doesn't use QUIC or Config.Sealed isn't set.
func newSealedCarrier(c *Conn) *sealedCarrier {
	quic, ok := c.carrier.(*quicconn.Carrier)
	if !ok || quic.Socket() == nil {
		return nil
	}
	return &sealedCarrier{conn: c, quic: quic}
}

// agreed reports whether both ends have set Config.Sealed. It may be called on a nil s, and
// is safe for concurrent use.
func (s *sealedCarrier) agreed() bool { return s != nil && s.conn.terms.peerSeals.Load() }

// wake asks for a call of maintain in the next Dispatch. It is safe for concurrent use.
func (s *sealedCarrier) wake() {
	s.attention.Store(true)
	s.conn.requestDispatch()
}

// config returns the configuration of an instance, which gets its packets from the
// connection's link and shares the link's lock.
func (s *sealedCarrier) config(instance uint32) sealed.Config {
	source := s.conn.link.Source()
	c := sealed.Config{
		SessionConfig: sealed.SessionConfig{
			Exporter:    s.quic.Export,
			CipherSuite: s.quic.CipherSuite(),
			Instance:    instance,
			Client:      !s.conn.server,
			Source:      source,
			Controller:  s.controller,
			RTT:         s.quic.Path().SmoothedRTT,
			Siblings:    &s.conn.world.siblings,
			PlayDelay:   s.conn.machine.Params().AckDelay,
			Other:       s.quic.Received,
		},
		Mutex:     source,
		AfterTurn: source.Turned,
		WakeOwner: source.Woken,
		Addrs:     s.quic.Addrs,
		PathLimit: s.quic.MaxPacket,
		NoJumbo:   s.conn.world.config.NoJumbo,
		Ping:      s.ping,
		PingTime:  s.conn.world.config.pingTime(s.conn.server),
		Observe:   func(now time.Time, c *pace.Controller) { source.Tell(now, c.Window(), c.Rate(), c.Loss(), c.LossOf()) },
		Changed:   s.changed,
		Ended:     s.wake,
	}
	if s.conn.allowance.Limited() {
		c.Rate = s.conn.allowance
	}
	return c
}

// changed is called on the carrier's goroutine when the carrier's state has changed. It tells
// the link whether to send with this carrier or over QUIC.
func (s *sealedCarrier) changed(state sealed.State) {
	carrier := s.carriers.current()
	var inUse link.Sealed
	if state == sealed.Open {
		inUse = carrier
	}
	s.conn.link.Carry(inUse)
	if state == sealed.Closed {
		s.closeOnViolation(carrier.Err())
	}
	s.wake()
}

// closeOnViolation closes the connection if err says that the peer broke the protocol. A
// carrier that ended for any other reason doesn't matter, because QUIC takes over.
func (s *sealedCarrier) closeOnViolation(err error) {
	if ended, ok := errors.AsType[*sealed.Error](err); ok && ended.Violation {
		s.conn.world.closeForViolation(s.conn, &CloseError{Code: SealedViolation, Reason: ended.Reason, cause: err})
	}
}

// ping makes QUIC send a packet that the peer has to acknowledge. The carrier's goroutine calls
// ping, which starts another goroutine, because QUIC may block for as long as the path delivers
// nothing. Until that ping has been sent, further calls don't add another.
func (s *sealedCarrier) ping() {
	// This happens often enough for maintain to check whether we need more spare ids.
	s.wake()
	if s.pinging.Swap(true) {
		return
	}
	s.conn.life.work.Go(func() {
		defer s.pinging.Store(false)
		s.conn.link.Ping()
	})
}

// begin creates the first carrier, instance 1, and starts it after beginDelay. It runs on the
// handshake's goroutine.
func (s *sealedCarrier) begin() {
	s.instances.Begin(time.Now())
	if !s.beginInstance(1) {
		// We have no carrier, but pretend that instance 1 began and ended right away. If the
		// peer has one, we then accept its messages about it, and a client may open instance 2.
		s.instances.Renew(1)
		s.instances.End(time.Now())
		return
	}
	time.AfterFunc(beginDelay, s.carriers.current().Start)
}

// beginInstance creates the carrier of an instance, for the caller to start. The previous
// carrier must have ended, because both use the same controller and link.
//
// It returns false if there's no carrier, because the connection is closed or because of an
// error, which it logs.
func (s *sealedCarrier) beginInstance(instance uint32) (ok bool) {
	if s.controller == nil {
		s.controller = pace.New(pace.Config{})
	} else {
		s.controller.Reset(time.Now())
	}
	carrier, err := s.carriers.add(s.quic.Socket(), s.config(instance))
	if err != nil {
		s.conn.world.log.Error("sealed carrier not started", "conn", s.conn, "instance", instance, "error", err)
	}
	if carrier == nil {
		return false
	}
	s.instances.Renew(instance)
	s.state = sealed.Opening
	return true
}

// These constants limit the number of sealed carriers, opened by clients, that are started in one
// Dispatch. The remaining carriers wait for the next Dispatch.
//
// Many clients may open carriers at the same time, for instance after an outage. Starting a carrier
// takes 40 µs, and on a busy machine as long as the world's goroutine has to wait for a processor.
const (
	maxSealedStarts = 64
	sealedStartTime = 2 * time.Millisecond // no more after this, but at least one
)

// maintain is called on the world's goroutine after wake, whenever something about the
// carrier may have changed. It logs the state, opens the next carrier once one has closed,
// and asks the peer for spare ids when they run low.
func (s *sealedCarrier) maintain() {
	if !s.conn.usable() {
		return
	}
	if s.pending > 0 {
		s.beginOpened()
		return
	}
	carrier := s.carriers.current()
	if carrier == nil {
		return
	}
	state := carrier.State()
	s.logState(state)
	if state == sealed.Open {
		s.instances.Opened()
	}
	switch {
	// The carrier has just closed, and the peer may not know yet.
	case s.instances.Live() && state == sealed.Closed:
		s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedShut, s.instances.Newest()))
		s.instances.End(time.Now())
		s.openNext()
	// It closed some time ago, so it may be time to try again.
	case !s.instances.Live():
		s.openNext()
	case s.instances.RequestIDs(carrier.SpareIDs()):
		s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedAsk, s.instances.Newest()))
	}
}

// maintainSealed calls maintain for the sealed carriers that have asked for it by calling wake.
func (w *World) maintainSealed() {
	started := 0
	var deadline time.Time
	for _, c := range w.frame.active {
		s := c.sealed
		if s == nil || !s.attention.Load() {
			continue
		}
		if s.pending > 0 {
			if started == 0 {
				deadline = time.Now().Add(sealedStartTime)
			} else if started == maxSealedStarts || time.Now().After(deadline) {
				c.requestDispatch() // have the next Dispatch look at it
				continue
			}
			started++
		}
		s.attention.Store(false)
		s.maintain()
	}
}

// logState logs the newest carrier's state unless it's the one we logged last.
func (s *sealedCarrier) logState(state sealed.State) {
	if state == s.state {
		return
	}
	s.state = state
	s.conn.world.logs.LogJoined(slog.LevelInfo, logs.CarrierChanged, s.conn.party(),
		"sealed carrier is "+state.String(), "conn", s.conn, "instance", s.instances.Newest())
}

// openNext begins the next carrier and tells the server, or if it's still too early, arranges
// for another call of maintain later. Only clients open carriers, so on a server it is a
// no-op.
func (s *sealedCarrier) openNext() {
	if s.conn.server || !s.carriers.ended() {
		return
	}
	if wait := s.instances.TryNext(time.Now()); wait > 0 {
		s.carriers.retryAfter(wait, s.wake)
		return
	}
	if s.beginInstance(s.instances.Newest() + 1) {
		s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedOpen, s.instances.Newest()))
		s.carriers.current().Start()
	}
}

// control handles a message from the peer about one of the carriers. It returns a violation
// only for a message that no honest peer would send.
func (s *sealedCarrier) control(m control.Sealed) *CloseError {
	current, ok := s.checkInstance(m)
	if !ok {
		return violationf(ControlChannelMessageFail, "%s names carrier %d; the newest is %d",
			control.Name(m.Kind), m.Instance, s.instances.Newest())
	}
	if !current {
		// The instance has ended here, which the peer didn't know when it sent the message.
		return nil
	}
	switch m.Kind {
	case control.IDSealedOpen:
		s.onOpen(m.Instance)
	case control.IDSealedShut:
		s.onShut()
	case control.IDSealedAsk:
		s.onAsk()
	case control.IDSealedIDs:
		s.onIDs(m.IDs)
	}
	return nil
}

// checkInstance checks the instance that a message is about. current is false if it has ended here.
// ok is false if the message breaks the protocol: because it names an instance that hasn't
// begun, opens one that the peer may not open now, or brings ids that we never asked for.
func (s *sealedCarrier) checkInstance(m control.Sealed) (current, ok bool) {
	switch m.Kind {
	case control.IDSealedOpen:
		return true, s.conn.server && s.instances.MayOpen(m.Instance, time.Now())
	case control.IDSealedIDs:
		return s.instances.AcceptIDs(m.Instance)
	}
	return s.instances.Has(m.Instance)
}

// onOpen handles the client's request to open an instance. We leave it to maintain to start
// the carrier, once the previous one has ended, so that no tick has to wait for that.
func (s *sealedCarrier) onOpen(instance uint32) {
	s.instances.Renew(instance)
	s.pending = instance
	s.idsRequested = false
	s.attention.Store(true)
}

// onAsk sends the peer the spare ids it asked for. If the instance is still waiting for its
// predecessor to end, beginOpened sends them later.
func (s *sealedCarrier) onAsk() {
	s.idsRequested = s.pending > 0
	if !s.idsRequested {
		s.sendIDs()
	}
}

// onIDs hands the spare ids from the peer to the newest carrier.
func (s *sealedCarrier) onIDs(ids []sealed.ID) {
	s.carriers.current().AddIDs(ids...)
	s.wake()
}

// beginOpened starts the carrier that the client has asked for. If that fails, it answers
// SealedShut.
func (s *sealedCarrier) beginOpened() {
	// When the previous carrier ends, it wakes maintain, which brings us back here.
	if !s.carriers.ended() {
		return
	}
	instance := s.pending
	s.pending = 0
	if !s.beginInstance(instance) {
		s.instances.End(time.Now())
		s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedShut, instance))
		return
	}
	s.carriers.current().Start()
	if s.idsRequested {
		s.sendIDs()
	}
}

// onShut closes the newest carrier because the peer has closed it.
func (s *sealedCarrier) onShut() {
	s.instances.End(time.Now())
	if s.pending > 0 {
		// The newest carrier hasn't been created yet, and the previous one, if any, is ending.
		s.pending = 0
		return
	}
	s.carriers.current().Close()
	s.wake()
}

// sendIDs sends the peer some spare ids of the newest carrier.
func (s *sealedCarrier) sendIDs() {
	carrier := s.carriers.current()
	ids := make([]sealed.ID, moreIDs)
	for i := range ids {
		ids[i] = carrier.Issue()
	}
	s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedIDs, s.instances.Newest(), ids...))
}

// logSealedMismatch logs that only one end of a connection has set Config.Sealed, and says which
// end still has to set it. It logs nothing if it is set here but useless, because this
// connection doesn't use QUIC.
func logSealedMismatch(c *Conn) {
	ours, theirs := c.world.config.Sealed, c.terms.peerSeals.Load()
	if ours == theirs || ours && c.sealed == nil {
		return
	}
	set, unset := c.world.role(), "server"
	if c.server {
		unset = "client"
	}
	if theirs {
		set, unset = unset, set
	}
	c.world.logs.LogJoined(slog.LevelInfo, logs.CarrierChanged, c.party(),
		"QUIC carries everything: rpc.Config.Sealed is set on the "+set+
			" but not on the "+unset+": set it on both",
		"conn", c)
}

// carriers holds the newest sealed carrier of a connection, and the counters of earlier ones. Its
// methods are safe for concurrent use.
type carriers struct {
	mu         sync.Mutex      // taken before the link's lock
	newest     *sealed.Carrier // nil before the first
	closed     bool            // the connection is closed, so there won't be another carrier
	addErr     error           // why the last add failed, for instance because TLS has no keys
	past       SealedStats     // sum of the counters of earlier carriers; the other fields are zero
	retryTimer *time.Timer     // nil until retryAfter is first called
}

// add creates a carrier, which becomes the newest. The one before must have ended. If the
// connection is closed, add returns nil without an error.
func (s *carriers) add(socket *sealed.Socket, config sealed.Config) (carrier *sealed.Carrier, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	carrier, err = sealed.NewCarrier(socket, config)
	s.addErr = err
	if err != nil {
		return nil, err
	}
	if s.newest != nil {
		s.past.add(s.newest.Stats())
	}
	s.newest = carrier
	return carrier, nil
}

// current returns the newest carrier, or nil before the first.
func (s *carriers) current() *sealed.Carrier {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// close is called when the connection closes. It closes the newest carrier, but doesn't wait
// for it to end.
func (s *carriers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.newest != nil {
		s.newest.Close()
	}
	if s.retryTimer != nil {
		s.retryTimer.Stop()
	}
}

// ended reports whether the newest carrier has stopped using the socket. Before the first carrier,
// it returns true.
func (s *carriers) ended() bool {
	carrier := s.current()
	return carrier == nil || bell.Closed(carrier.Done())
}

// wait blocks until the newest carrier, which must have been closed, stops using the socket. It
// mustn't be called from a tick, because the carrier may be blocked on the socket until then.
func (s *carriers) wait() {
	if carrier := s.current(); carrier != nil {
		<-carrier.Done()
	}
}

// retryAfter calls retry after the given time, unless the connection closes first.
func (s *carriers) retryAfter(wait time.Duration, retry func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.retryTimer == nil {
		s.retryTimer = time.AfterFunc(wait, retry)
	} else {
		s.retryTimer.Reset(wait)
	}
}

// stats returns the state of the newest carrier along with the counters of all of them.
func (s *carriers) stats() SealedStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.past
	stats.State = sealed.Opening.String()
	if s.closed || s.addErr != nil {
		stats.State = sealed.Closed.String()
		stats.Err = s.addErr
	}
	if s.newest == nil {
		return stats
	}
	c := s.newest.Stats()
	stats.add(c)
	stats.State = s.newest.State().String()
	stats.Err = s.newest.Err()
	stats.Rate = int(c.Rate)
	stats.Window = c.Window
	stats.MaxPacket = c.MaxPacket
	return stats
}
