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
	// beginDelay is the time the first carrier waits before it sends its train (see
	// package sealed). QUIC sends Welcome and Join in this time. After the train, they
	// would be 170 ms late at 1 Mbit/s.
	beginDelay = 2 * time.Millisecond
	// moreIDs is the number of spare ids sent to a peer that requests some.
	moreIDs = 2
)

// SealedStats is the state of a connection's newest sealed carrier, and the counters of
// all its carriers.
type SealedStats struct {
	// State is one of:
	//
	//	off      Config.Sealed is not set at both ends, or the connection does not use QUIC
	//	opening  none of its packets has been acknowledged yet
	//	open     in use
	//	silent   no packet has been acknowledged lately, so QUIC carries everything
	//	closed   ended, for instance after 10 s of silence; the client opens the next carrier later
	State string
	// Carries is true if everything this end sends goes through the sealed carrier rather
	// than QUIC. See [Conn.Sealed].
	Carries bool
	// Err is the reason the newest carrier closed; nil if it is not closed.
	Err error

	Carriers              uint32 // number of carriers begun so far, including the newest
	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64
	PacketsAcked          uint64
	PacketsLost           uint64
	SpuriousLosses        uint64 // packets counted in PacketsLost that arrived after all
	Discarded             uint64 // packets dropped on arrival, for any reason
	// Rate is the permitted send rate in bytes per second, measured on the path. It is an
	// initial guess until then.
	Rate int
	// Window is the limit on bytes in flight: the path's measured capacity plus part of
	// its queue.
	Window int
	// MaxPacket is the maximum packet size in bytes that may be sent now. It is 8,952
	// while bulk uses such packets; see [Config].NoJumbo.
	MaxPacket int
}

// add adds the counters of one more carrier.
func (s *SealedStats) add(c sealed.CarrierStats) {
	s.Carriers++
	s.PacketsIn += c.Received
	s.PacketsOut += c.Sent
	s.BytesIn += c.ReceivedBytes
	s.BytesOut += c.SentBytes
	s.PacketsAcked += c.Acked
	s.PacketsLost += c.Lost
	s.SpuriousLosses += c.Spurious
	s.Discarded += c.Dropped() + c.Full + c.Elsewhere
}

// carrier returns the cells of a table that show the carrier in use, and the reason.
func (s *SealedStats) carrier() []string {
	switch {
	case s.Carries:
		return []string{
			"sealed",
			statnet.Rate(float64(s.Rate)),
			"packets of up to " + statnet.Count(s.MaxPacket) + " B",
			statnet.Count(s.PacketsLost) + " of " + statnet.Count(s.PacketsOut) + " lost",
		}
	case s.State == "off":
		return []string{"QUIC", "sealed is off: Config.Sealed is not set at both ends, or no QUIC, as in rpctest"}
	case s.Err != nil:
		return []string{"QUIC", "sealed is " + s.State, s.Err.Error()}
	}
	return []string{"QUIC", "sealed is " + s.State}
}

// sealedCarrier sends the output of a connection's machines as sealed packets, over
// QUIC's socket.
//
// It uses one carrier after another. The first begins at the end of the handshake. After
// a carrier closes, the client opens the next one. A carrier that is open and not silent
// carries everything. An idle carrier has no goroutine.
//
// Call its methods only from the world's goroutine or, before Join, from the handshake's,
// unless their comments say otherwise.
type sealedCarrier struct {
	conn      *Conn
	quic      *quicconn.Carrier
	attention atomic.Bool // the next Dispatch must run maintain
	pinging   atomic.Bool // a goroutine started by ping is waiting in QUIC

	carriers  carriers
	instances control.Instances // numbers of the carriers, as agreed with the peer
	// Server: the instance that begins after the previous carrier ends; 0 = none.
	opens   uint32
	owesIDs bool         // server: the client requested spare ids of the instance that opens
	state   sealed.State // state of the newest carrier when maintain last logged it
	// Shared by all carriers. Used under the link's lock while there is a carrier.
	controller *pace.Controller
}

// newSealedCarrier returns the sealed carriers of a connection. It returns nil if the
// connection has no socket for sealed packets: without Config.Sealed, or without QUIC.
func newSealedCarrier(c *Conn) *sealedCarrier {
	quic, ok := c.carrier.(*quicconn.Carrier)
	if !ok || quic.Socket() == nil {
		return nil
	}
	return &sealedCarrier{conn: c, quic: quic}
}

// agreed reports whether both ends have sealed carriers: s is not nil, and the peer has
// Config.Sealed. It is safe for concurrent use.
func (s *sealedCarrier) agreed() bool { return s != nil && s.conn.peerSeals.Load() }

// wake makes the next Dispatch call maintain. It is safe for concurrent use.
func (s *sealedCarrier) wake() {
	s.attention.Store(true)
	s.conn.call()
}

// config returns the config of an instance. Its packets come from the connection's link,
// and its session shares the link's lock.
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
		Turned:    source.Turned,
		Woken:     source.Woken,
		Addrs:     s.quic.Addrs,
		MaxPacket: s.quic.MaxPacket,
		NoJumbo:   s.conn.world.config.NoJumbo,
		Ping:      s.ping,
		PingTime:  s.conn.world.config.pingTime(s.conn.server),
		Observe:   func(now time.Time, c *pace.Controller) { source.Tell(now, c.Window(), c.Rate(), c.Loss()) },
		Changed:   s.changed,
		Ended:     s.wake,
	}
	if s.conn.allowance.Limited() {
		c.Rate = s.conn.allowance
	}
	return c
}

// changed is called on the carrier's goroutine when its state changes. The link uses the
// carrier while it is open.
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

// closeOnViolation closes the connection if its carrier ended because the peer broke the
// protocol.
func (s *sealedCarrier) closeOnViolation(err error) {
	if ended, ok := errors.AsType[*sealed.Error](err); ok && ended.Violation {
		s.conn.world.violated(s.conn, &CloseError{Code: SealedViolation, Reason: ended.Reason, cause: err})
	}
}

// ping makes QUIC send a packet that is acknowledged. It is called on the carrier's
// goroutine. Only one ping waits at a time, because QUIC may block while the path is
// dark.
func (s *sealedCarrier) ping() {
	s.wake() // maintain requests spare ids at this rate
	if s.pinging.Swap(true) {
		return
	}
	s.conn.work.Go(func() {
		defer s.pinging.Store(false)
		s.conn.link.Ping()
	})
}

// begin creates the first carrier, instance 1. It runs on the handshake's goroutine. The
// carrier starts beginDelay later.
//
// If there can be no carrier, this end records that instance 1 began and ended. The peer
// may have begun its own instance 1, and must not be closed for naming an instance that
// this end does not know. The record also lets a server's client open instance 2.
func (s *sealedCarrier) begin() {
	s.instances.Begin(time.Now())
	if !s.beginInstance(1) {
		s.instances.Renew(1) // beginInstance did not
		s.instances.End(time.Now())
		return
	}
	time.AfterFunc(beginDelay, s.carriers.current().Start)
}

// beginInstance creates the carrier of an instance. The caller starts it. The previous
// carrier must have ended, because the two share a controller and a link.
//
// It returns false if the connection is closed, or if there can be no carrier, which it
// logs.
func (s *sealedCarrier) beginInstance(instance uint32) (ok bool) {
	if s.controller == nil {
		s.controller = pace.New(pace.Config{})
	} else {
		s.controller.Reset(time.Now())
	}
	carrier, err := s.carriers.add(s.quic.Socket(), s.config(instance))
	if err != nil {
		s.conn.world.log.Error("no sealed carrier", "conn", s.conn, "instance", instance, "error", err)
	}
	if carrier == nil {
		return false
	}
	s.instances.Renew(instance)
	s.state = sealed.Opening
	return true
}

// maintain is called on the world's goroutine after wake. It logs a new state, opens the
// next carrier after one closed, and requests spare ids.
func (s *sealedCarrier) maintain() {
	if !s.conn.usable() {
		return
	}
	if s.opens > 0 {
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
	case s.instances.Live() && state == sealed.Closed:
		s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedShut, s.instances.Newest()))
		s.instances.End(time.Now())
		s.openNext()
	case !s.instances.Live():
		s.openNext()
	case s.instances.Want(carrier.Spares()):
		s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedAsk, s.instances.Newest()))
	}
}

// logState logs the state of the newest carrier if it has changed since the last call.
func (s *sealedCarrier) logState(state sealed.State) {
	if state == s.state {
		return
	}
	s.state = state
	s.conn.world.logs.Guest(slog.LevelInfo, logs.Carried, s.conn.party(),
		"sealed carrier is "+state.String(), "conn", s.conn, "instance", s.instances.Newest())
}

// openNext begins the next carrier on a client, and reports it to the server. If it is
// too early for the next carrier, a timer wakes maintain. On a server it does nothing.
func (s *sealedCarrier) openNext() {
	if s.conn.server || !s.carriers.over() {
		return
	}
	if wait := s.instances.Next(time.Now()); wait > 0 {
		s.carriers.retryAfter(wait, s.wake)
		return
	}
	if s.beginInstance(s.instances.Newest() + 1) {
		s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedOpen, s.instances.Newest()))
		s.carriers.current().Start()
	}
}

// control handles a peer's message about carriers. It returns a violation if no honest
// peer sends this message now, and otherwise nil.
//
// It ignores a message about a carrier that ended here, because the peer may have sent
// the message before it knew.
func (s *sealedCarrier) control(m control.Sealed) *CloseError {
	current, ok := s.admits(m)
	if !ok {
		return violationf(ControlChannelMessageFail, "%s of carrier %d arrived at carrier %d",
			control.Name(m.Kind), m.Instance, s.instances.Newest())
	}
	if !current {
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

// admits checks the instance that a message names. current is false if the instance has
// ended. ok is false if the message breaks the protocol: it opens an instance that it may
// not open, carries ids that this end did not request, or names an instance that has not
// begun.
func (s *sealedCarrier) admits(m control.Sealed) (current, ok bool) {
	switch m.Kind {
	case control.IDSealedOpen:
		return true, s.conn.server && s.instances.MayOpen(m.Instance, time.Now())
	case control.IDSealedIDs:
		return s.instances.Given(m.Instance)
	}
	return s.instances.Has(m.Instance)
}

// onOpen handles the client's request to open an instance. maintain starts the instance's
// carrier in the first Dispatch after the previous carrier ends, so no tick blocks on it.
func (s *sealedCarrier) onOpen(instance uint32) {
	s.instances.Renew(instance)
	s.opens = instance
	s.owesIDs = false
	s.attention.Store(true)
}

// onAsk sends the spare ids that the peer requested. If the carrier has not begun,
// beginOpened sends them later.
func (s *sealedCarrier) onAsk() {
	s.owesIDs = s.opens > 0
	if !s.owesIDs {
		s.sendIDs()
	}
}

// onIDs gives the newest carrier the spare ids that the peer sent.
func (s *sealedCarrier) onIDs(ids []sealed.ID) {
	s.carriers.current().AddIDs(ids...)
	s.wake()
}

// beginOpened starts the carrier that the client opened, if the previous one has ended.
// If the previous one has not ended, its end wakes maintain again. If there can be no
// carrier, beginOpened answers SealedShut.
func (s *sealedCarrier) beginOpened() {
	if !s.carriers.over() {
		return
	}
	instance := s.opens
	s.opens = 0
	if !s.beginInstance(instance) {
		s.instances.End(time.Now())
		s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedShut, instance))
		return
	}
	s.carriers.current().Start()
	if s.owesIDs {
		s.sendIDs()
	}
}

// onShut closes the newest carrier, because the peer closed it.
func (s *sealedCarrier) onShut() {
	s.instances.End(time.Now())
	if s.opens > 0 {
		// The newest has not begun, and the previous one, if any, is already ending.
		s.opens = 0
		return
	}
	s.carriers.current().Close()
	s.wake()
}

// sendIDs sends the peer spare ids of the newest carrier.
func (s *sealedCarrier) sendIDs() {
	carrier := s.carriers.current()
	ids := make([]sealed.ID, moreIDs)
	for i := range ids {
		ids[i] = carrier.Issue()
	}
	s.conn.sendAtOnce(control.AppendSealed(nil, control.IDSealedIDs, s.instances.Newest(), ids...))
}

// tellSealed logs when only one end of a joined connection has set Config.Sealed, and
// names the end that must set it. It logs nothing if this end set it but the connection
// does not use QUIC.
func tellSealed(c *Conn) {
	ours, theirs := c.world.config.Sealed, c.peerSeals.Load()
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
	c.world.logs.Guest(slog.LevelInfo, logs.Carried, c.party(),
		"QUIC carries everything: rpc.Config.Sealed is set on the "+set+
			" but not on the "+unset+"; set it on both",
		"conn", c)
}

// carriers holds the sealed carriers of one connection. Only the newest is in use. All
// methods are safe for concurrent use.
type carriers struct {
	mu     sync.Mutex      // taken before the link's lock
	newest *sealed.Carrier // nil = none has begun
	closed bool            // the connection is closed: no other carrier is added
	failed error           // reason the last add failed: TLS has no keys
	past   SealedStats     // counters of all carriers but the newest; its other fields are zero
	retry  *time.Timer     // nil before the first retryAfter
}

// add creates a carrier, which becomes the newest. The previous one must have ended. add
// returns nil and no error if the connection is closed.
func (s *carriers) add(socket *sealed.Socket, config sealed.Config) (carrier *sealed.Carrier, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	carrier, err = sealed.NewCarrier(socket, config)
	s.failed = err
	if err != nil {
		return nil, err
	}
	if s.newest != nil {
		s.past.add(s.newest.Stats())
	}
	s.newest = carrier
	return carrier, nil
}

// current returns the newest carrier, or nil if none has begun.
func (s *carriers) current() *sealed.Carrier {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// close closes the newest carrier together with the connection. It does not wait for the
// carrier's end.
func (s *carriers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.newest != nil {
		s.newest.Close()
	}
	if s.retry != nil {
		s.retry.Stop()
	}
}

// over reports whether the newest carrier has ended and no longer uses the socket.
func (s *carriers) over() bool {
	carrier := s.current()
	return carrier == nil || bell.Closed(carrier.Done())
}

// wait waits until the newest carrier, which was closed, no longer uses the socket. Don't
// call it from a tick: the carrier may take one more turn first, and that turn may block
// on the socket.
func (s *carriers) wait() {
	if carrier := s.current(); carrier != nil {
		<-carrier.Done()
	}
}

// retryAfter calls retry after wait, unless the connection is closed by then.
func (s *carriers) retryAfter(wait time.Duration, retry func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
	case s.retry == nil:
		s.retry = time.AfterFunc(wait, retry)
	default:
		s.retry.Reset(wait)
	}
}

// stats returns the state of the newest carrier, and the counters of all.
func (s *carriers) stats() SealedStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.past
	stats.State = sealed.Opening.String()
	if s.closed || s.failed != nil {
		stats.State = sealed.Closed.String()
		stats.Err = s.failed
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
