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
	// beginDelay is how long the first carrier waits before it sends its train (see package sealed), so that QUIC's goroutines send Welcome and Join
	// first. After the train they would be delayed by 170 ms at 1 Mbit/s.
	beginDelay = 2 * time.Millisecond
	// moreIDs is how many spare ids are sent to a peer that requests some.
	moreIDs = 2
)

// SealedStats is the state of a connection's newest sealed carrier, and the counters of all its carriers.
type SealedStats struct {
	// State is off (Config.Sealed is not set at both ends, or the connection does not use QUIC), opening, open, silent (no packet arrives, so QUIC
	// carries) or closed (for instance after 10 s of silence; the client opens the next one later).
	State string
	// Carries reports that the carrier, and not QUIC, sends everything that this end sends: see [Conn.Sealed].
	Carries bool
	// Err is the reason why the newest carrier closed.
	Err error

	Carriers              uint32 // begun so far, including the newest
	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64
	PacketsAcked          uint64
	PacketsLost           uint64
	SpuriousLosses        uint64 // packets of PacketsLost that arrived later
	Discarded             uint64 // packets dropped on arrival, for any reason
	Rate                  int    // bytes a second that it may send, as learned from the path; a first guess before that
	Window                int    // bytes that may be in flight, as learned from the path: what the path holds, and a part of its queue
	MaxPacket             int    // largest packet, in bytes, that it may send now; 8,952 while bulk uses such packets, see [Config].NoJumbo
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

// carrier returns the cells of a table that show which carrier is in use, and why.
func (s *SealedStats) carrier() []string {
	switch {
	case s.Carries:
		return []string{"sealed", statnet.Rate(float64(s.Rate)), "packets of up to " + statnet.Count(s.MaxPacket) + " B",
			statnet.Count(s.PacketsLost) + " of " + statnet.Count(s.PacketsOut) + " lost"}
	case s.State == "off":
		return []string{"QUIC", "sealed is off: Config.Sealed is not set at both ends, or no QUIC, as in rpctest"}
	case s.Err != nil:
		return []string{"QUIC", "sealed is " + s.State, s.Err.Error()}
	}
	return []string{"QUIC", "sealed is " + s.State}
}

// sealedCarrier sends what the machines of one connection send in sealed packets, on the same socket as QUIC's. It uses one carrier after another:
// the first begins at the end of the handshake, and when one has closed, the client opens the next. A carrier that is open and not silent carries
// everything. A carrier has no goroutine while it is idle.
//
// Unless their comments say otherwise, its methods must be called on the world's goroutine, and before Join on that of the handshake.
type sealedCarrier struct {
	conn      *Conn
	quic      *quicconn.Carrier
	attention atomic.Bool // the next Dispatch must run maintain
	pinging   atomic.Bool // a goroutine of ping waits in QUIC

	carriers   carriers
	instances  control.Instances // the numbers of the carriers, as agreed with the peer
	opens      uint32            // server: the instance that begins once the carrier before it has ended; 0 = none
	owesIDs    bool              // server: the client has requested spare ids of the instance that opens
	state      sealed.State      // of the newest carrier, when maintain last logged it
	controller *pace.Controller  // of all carriers; used under the link's lock while there is one
}

// newSealedCarrier returns nil if the connection has no socket for sealed packets: without Config.Sealed, or without QUIC.
func newSealedCarrier(c *Conn) *sealedCarrier {
	quic, ok := c.carrier.(*quicconn.Carrier)
	if !ok || quic.Socket() == nil {
		return nil
	}
	return &sealedCarrier{conn: c, quic: quic}
}

// agreed reports whether both ends have sealed carriers: s is not nil, and the peer has Config.Sealed, too. It is safe for concurrent use.
func (s *sealedCarrier) agreed() bool { return s != nil && s.conn.peerSeals.Load() }

// wake makes the next Dispatch call maintain. It is safe for concurrent use.
func (s *sealedCarrier) wake() {
	s.attention.Store(true)
	s.conn.call()
}

// config returns the config of an instance. Its source of packets is the connection's link, whose lock is also the session's.
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

// changed is called on the carrier's goroutine when its state has changed. It makes the link use the carrier while that is open.
func (s *sealedCarrier) changed(state sealed.State) {
	carrier := s.carriers.current()
	var by link.Sealed
	if state == sealed.Open {
		by = carrier
	}
	s.conn.link.Carry(by)
	if state == sealed.Closed {
		s.closeOnViolation(carrier.Err())
	}
	s.wake()
}

// closeOnViolation closes the connection if its carrier ended because the peer broke the protocol.
func (s *sealedCarrier) closeOnViolation(err error) {
	if ended, ok := errors.AsType[*sealed.Error](err); ok && ended.Violation {
		s.conn.world.violated(s.conn, &CloseError{Code: SealedViolation, Reason: ended.Reason, cause: err})
	}
}

// ping makes QUIC send a packet that is acknowledged. It is called on the carrier's goroutine. Only one ping waits at a time, because QUIC may
// block while the path is dark.
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

// begin begins the first carrier, on the goroutine of the handshake. It starts beginDelay later.
func (s *sealedCarrier) begin() {
	s.instances.Begin(time.Now())
	if !s.beginInstance(1) {
		s.instances.Renew(1)
		s.instances.End(time.Now())
		return
	}
	time.AfterFunc(beginDelay, s.carriers.current().Start)
}

// beginInstance makes the carrier of an instance, which the caller starts. The carrier before it must have ended, because both have the same
// controller and the same link. beginInstance returns false if the connection is closed, or if there can be no carrier, which it logs.
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

// maintain is called on the world's goroutine after wake. It logs a new state, opens the next carrier after one has closed, and requests spare ids.
func (s *sealedCarrier) maintain() {
	carrier := s.carriers.current()
	switch {
	case !s.conn.usable():
		return
	case s.opens > 0:
		s.beginOpened()
		return
	case carrier == nil:
		return
	}
	state := carrier.State()
	if state != s.state {
		s.state = state
		s.conn.world.logs.Guest(slog.LevelInfo, logs.Carried, s.conn.party(), "sealed carrier is "+state.String(), "conn", s.conn, "instance", s.instances.Newest())
	}
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

// openNext begins the next carrier, on a client, and tells the server. If it is too early for that, a timer wakes maintain.
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

// control handles a message of the peer about carriers. It returns a violation, or nil.
func (s *sealedCarrier) control(m control.Sealed) *CloseError {
	current, ok := s.instances.Has(m.Instance)
	switch m.Kind {
	case control.IDSealedOpen:
		current, ok = true, s.conn.server && s.instances.MayOpen(m.Instance, time.Now())
	case control.IDSealedIDs:
		current, ok = s.instances.Given(m.Instance)
	}
	switch {
	case !ok:
		return violationf(ControlChannelMessageFail, "%s of carrier %d arrived at carrier %d", control.Name(m.Kind), m.Instance, s.instances.Newest())
	case !current: // that carrier had ended when the message arrived
		return nil
	}
	switch m.Kind {
	case control.IDSealedOpen:
		// maintain begins this carrier in the first Dispatch that finds the one before it ended; no tick waits for that end.
		s.instances.Renew(m.Instance)
		s.opens, s.owesIDs = m.Instance, false
		s.attention.Store(true)
	case control.IDSealedShut:
		s.onShut()
	case control.IDSealedAsk:
		if s.owesIDs = s.opens > 0; !s.owesIDs { // otherwise they are sent once the carrier has begun
			s.sendIDs()
		}
	case control.IDSealedIDs:
		s.carriers.current().AddIDs(m.IDs...)
		s.wake()
	}
	return nil
}

// beginOpened begins the carrier that the client has opened, if the one before it has ended. If not, its end wakes maintain again.
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

// onShut closes the newest carrier, which the peer has closed.
func (s *sealedCarrier) onShut() {
	s.instances.End(time.Now())
	if s.opens > 0 { // it has not begun; the one before it, if any, is ending already
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

// tellSealed logs, for a connection that has joined, if only one of its ends has Config.Sealed, and which end must set it.
func tellSealed(c *Conn) {
	if ours := c.world.config.Sealed; ours == c.peerSeals.Load() || ours && c.sealed == nil { // the last condition: it does not use QUIC
		return
	}
	here, there := c.world.role(), "server"
	if c.server {
		there = "client"
	}
	if c.peerSeals.Load() {
		here, there = there, here
	}
	c.world.logs.Guest(slog.LevelInfo, logs.Carried, c.party(), "QUIC carries all: the "+here+" has rpc.Config.Sealed, and the "+there+" has not; set it at both", "conn", c)
}

// carriers are the sealed carriers of one connection. Only the newest is in use. All methods are safe for concurrent use.
type carriers struct {
	mu     sync.Mutex      // taken before the link's lock
	newest *sealed.Carrier // nil = none has begun
	closed bool            // the connection is closed: no other carrier is added
	failed error           // why the last add failed: TLS has no keys
	past   SealedStats     // counters of the carriers before the newest; its other fields are zero
	retry  *time.Timer     // set by the first retryAfter; nil before
}

// add makes a new carrier the newest. The one before must have ended. It returns nil if the connection is closed.
func (s *carriers) add(socket *sealed.Socket, config sealed.Config) (carrier *sealed.Carrier, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	carrier, err = sealed.NewCarrier(socket, config)
	if s.failed = err; err != nil {
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

// close closes the newest carrier together with the connection. It does not wait for its end.
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

// wait waits until the newest carrier, which has been closed, no longer uses the socket. A tick must not call it, because the carrier may take
// another turn first, and wait for the socket in it.
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
		stats.State, stats.Err = sealed.Closed.String(), s.failed
	}
	if s.newest == nil {
		return stats
	}
	c := s.newest.Stats()
	stats.add(c)
	stats.State, stats.Err = s.newest.State().String(), s.newest.Err()
	stats.Rate, stats.Window, stats.MaxPacket = int(c.Rate), c.Window, c.MaxPacket
	return stats
}
