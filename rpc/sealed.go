package rpc

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/statnet"
	"github.com/quivernet/quiver/internal/udp"
)

const (
	// beginDelay has QUIC's goroutines send Welcome and Join before the train, behind which they would wait: 170 ms at 1 Mbit/s.
	beginDelay = 2 * time.Millisecond
	// moreIDs are how many spare ids answer who asks for more.
	moreIDs = 2
)

// SealedStats is how the sealed carrier of a connection stands, and counts of all that the connection had.
type SealedStats struct {
	// State is off (Config.Sealed is not set at both ends, or the connection is no QUIC), opening, open, silent (no packet
	// gets through, and QUIC carries) or closed (as silent for 10 s; the next one is tried later).
	State string
	// Carries tells that it moves all that this end sends, as [Conn.Sealed] does; else QUIC does.
	Carries bool
	// Err is why the newest carrier closed.
	Err error

	Carriers              uint32 // opened so far, here
	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64
	PacketsAcked          uint64
	PacketsLost           uint64
	SpuriousLosses        uint64 // counted as lost, and arrived all the same
	Discarded             uint64 // on arrival, for whatever reason
	Rate                  int    // bytes a second that it may send, by what the path has shown; before that what it begins with
	Window                int    // bytes that may be in flight: what the path holds and a part of its queue, as far as it knows
}

// sealedCarrier is the sealed carrier of one connection: packets beside QUIC's on the same socket, paced by a controller that
// lives with random loss. It begins with the last words of the handshake, and once open carries all that the connection's machines
// send, but while nothing of it arrives. It has no goroutine while it is idle. Its methods are safe from any goroutine.
type sealedCarrier struct {
	conn      *Conn
	quic      *quicconn.Carrier
	agreed    atomic.Bool // the peer has the feature too
	attention atomic.Bool // maintain has something to look at
	pinging   atomic.Bool // a ping waits for its turn inside QUIC

	mu      sync.Mutex      // keeps the carrier in place; taken before the link's lock
	carrier *sealed.Carrier // nil before the first
	closed  bool            // with the connection
	failed  error           // why there is none: TLS gives no keys for one, and never will
	past    SealedStats     // of the carriers before
	retry   *time.Timer

	// Under the link's lock; one carrier has ended before the next begins.
	control *pace.Controller

	// Owned by the world's goroutine, and by that of the handshake before the world knows the connection.
	instances control.Instances
	state     sealed.State // of the newest, as it was logged
}

// share prepares a socket for QUIC, and for sealed packets beside it when the config says so. The caller calls free when it needs
// neither any more.
func (w *World) share(socket net.PacketConn) (conn net.PacketConn, shared *sealed.Socket, free func()) {
	if _, ok := socket.(*net.UDPConn); ok && w.config.Sealed { // quic-go asks any other for what it can
		if err := udp.AskBuffers(socket, udp.BufferBytes); err != nil {
			w.log.Warn("the socket's buffers are small for sealed packets", "addr", socket.LocalAddr(), "error", err)
		}
	}
	free = func() {}
	if w.sockets != nil {
		socket, free = w.sockets.Add(socket)
	}
	if !w.config.Sealed {
		return socket, nil, free
	}
	shared = sealed.NewSocket(socket, sealed.SocketConfig{})
	return shared.QUIC(), shared, free
}

// newSealedCarrier returns nil when this side has none.
func newSealedCarrier(c *Conn) *sealedCarrier {
	quic, ok := c.carrier.(*quicconn.Carrier)
	if !ok || quic.Socket() == nil {
		return nil
	}
	return &sealedCarrier{conn: c, quic: quic}
}

// Stats returns a snapshot of the counters.
func (r *sealedCarrier) Stats() SealedStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := r.past
	stats.State = sealed.Opening.String()
	if r.closed || r.failed != nil {
		stats.State, stats.Err = sealed.Closed.String(), r.failed
	}
	if r.carrier == nil {
		return stats
	}
	c := r.carrier.Stats()
	stats.add(c)
	stats.State, stats.Err = r.carrier.State().String(), r.carrier.Err()
	stats.Rate, stats.Window = int(c.Rate), c.Window
	return stats
}

// add adds what a carrier counted.
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

// attend has the world's goroutine look.
func (r *sealedCarrier) attend() {
	r.attention.Store(true)
	r.conn.world.drive.Signal()
}

func (r *sealedCarrier) current() *sealed.Carrier {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carrier
}

// close ends the carrier with the connection, and returns at once.
func (r *sealedCarrier) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.carrier != nil {
		r.carrier.Close()
	}
	if r.retry != nil {
		r.retry.Stop()
	}
}

// wait returns when a closed carrier uses its socket no more.
func (r *sealedCarrier) wait() {
	if carrier := r.current(); carrier != nil {
		<-carrier.Done()
	}
}

// renew makes the carrier of an instance, in the place of one that has ended; nil when the connection is closed.
func (r *sealedCarrier) renew(instance uint32) (*sealed.Carrier, error) {
	r.wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil
	}
	if r.control == nil {
		r.control = pace.New(pace.Config{})
	} else {
		r.control.Reset(time.Now())
	}
	carrier, err := sealed.NewCarrier(r.quic.Socket(), r.config(instance))
	if r.failed = err; err != nil {
		return nil, err
	}
	if r.carrier != nil {
		r.past.add(r.carrier.Stats())
	}
	r.carrier = carrier
	return carrier, nil
}

// config is that of an instance, whose source is the connection's link, under its lock.
func (r *sealedCarrier) config(instance uint32) sealed.Config {
	source := r.conn.link.Source()
	c := sealed.Config{
		SessionConfig: sealed.SessionConfig{
			Exporter:    r.quic.Export,
			CipherSuite: r.quic.CipherSuite(),
			Instance:    instance,
			Client:      !r.conn.server,
			Source:      source,
			Controller:  r.control,
			RTT:         r.quic.Path().SmoothedRTT,
			Starting:    &r.conn.world.starting,
			PlayDelay:   r.conn.machine.Params().AckDelay,
			Other:       r.quic.Received,
		},
		Mutex:     source,
		Turned:    source.Turned,
		Woken:     source.Woken,
		Addrs:     r.quic.Addrs,
		MaxPacket: r.quic.MaxPacket,
		Ping:      r.ping,
		Observe:   func(now time.Time, c *pace.Controller) { source.Tell(now, c.Window(), c.Rate(), c.Loss()) },
		Changed:   r.changed,
	}
	if r.conn.allowance.Limited() {
		c.Rate = r.conn.allowance
	}
	return c
}

// changed is called on the carrier's goroutine. While it is open it carries all.
func (r *sealedCarrier) changed(state sealed.State) {
	carrier := r.current()
	var by link.Sealed
	if state == sealed.Open {
		by = carrier
	}
	r.conn.link.Carry(by)
	if state == sealed.Closed {
		r.judge(carrier.Err())
	}
	r.attend()
}

// judge closes the connection when its carrier ended because the peer broke the protocol.
func (r *sealedCarrier) judge(err error) {
	var ended *sealed.Error
	if errors.As(err, &ended) && ended.Kind == sealed.Violation {
		r.conn.world.violated(r.conn, &CloseError{Code: SealedViolation, Reason: ended.Reason, cause: err})
	}
}

// ping has QUIC send something that is acknowledged. One at a time waits for that: a path that is dark lets QUIC send nothing.
// It is called on the carrier's goroutine.
func (r *sealedCarrier) ping() {
	r.attend() // spare ids are looked after at this pace
	if r.pinging.Swap(true) {
		return
	}
	r.conn.work.Go(func() {
		defer r.pinging.Store(false)
		r.conn.link.Ping()
	})
}

// begin begins the first carrier, once QUIC has sent what it was given. The world has not seen the connection yet.
func (r *sealedCarrier) begin() {
	r.instances.Begin(time.Now())
	if !r.replace(1) {
		r.instances.Fail(1, time.Now())
		return
	}
	time.AfterFunc(beginDelay, r.current().Start)
}

// open opens the next carrier of a client.
func (r *sealedCarrier) open() {
	if r.replace(r.instances.Newest() + 1) {
		r.send(control.AppendSealed(nil, control.IDSealedOpen, r.instances.Newest()))
		r.current().Start()
	}
}

// replace begins an instance. Not ok: there is none, and the log says why.
func (r *sealedCarrier) replace(instance uint32) (ok bool) {
	carrier, err := r.renew(instance)
	if err != nil {
		r.conn.world.log.Error("no sealed carrier", "conn", r.conn, "instance", instance, "error", err)
	}
	if carrier == nil {
		return false
	}
	r.instances.Renew(instance)
	r.state = sealed.Opening
	return true
}

// maintain looks after the carrier on the world's goroutine, when something has changed.
func (r *sealedCarrier) maintain() {
	carrier := r.current()
	if carrier == nil || !r.conn.usable() {
		return
	}
	state := carrier.State()
	if state != r.state {
		r.state = state
		r.conn.world.log.Info("sealed carrier is "+state.String(), "conn", r.conn, "instance", r.instances.Newest())
	}
	if state == sealed.Open {
		r.instances.Opened()
	}
	switch {
	case r.instances.Live() && state == sealed.Closed:
		r.send(control.AppendSealed(nil, control.IDSealedShut, r.instances.Newest()))
		r.instances.End(time.Now())
		r.seek()
	case !r.instances.Live():
		r.seek()
	case r.instances.Want(carrier.Spares()):
		r.send(control.AppendSealed(nil, control.IDSealedAsk, r.instances.Newest()))
	}
}

// seek has a client open the next carrier in due time.
func (r *sealedCarrier) seek() {
	if r.conn.server {
		return
	}
	if wait := r.instances.Next(time.Now()); wait > 0 {
		r.attendAfter(wait)
		return
	}
	r.open()
}

func (r *sealedCarrier) attendAfter(wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
	case r.retry == nil:
		r.retry = time.AfterFunc(wait, r.attend)
	default:
		r.retry.Reset(wait)
	}
}

// onOpen begins the next carrier of a server.
func (r *sealedCarrier) onOpen(m control.SealedOpen) *CloseError {
	if !r.conn.server || !r.instances.MayOpen(m.Instance, time.Now()) {
		return r.misplaced(control.IDSealedOpen, m.Instance)
	}
	if r.replace(m.Instance) {
		r.current().Start()
		return nil
	}
	r.instances.Fail(m.Instance, time.Now())
	r.send(control.AppendSealed(nil, control.IDSealedShut, m.Instance))
	return nil
}

// onShut ends a carrier that the peer has ended.
func (r *sealedCarrier) onShut(m control.SealedShut) *CloseError {
	current, ok := r.instances.Has(m.Instance)
	if !ok {
		return r.misplaced(control.IDSealedShut, m.Instance)
	}
	if current {
		r.instances.End(time.Now())
		r.current().Close()
		r.attend()
	}
	return nil
}

// onAsk issues spare ids.
func (r *sealedCarrier) onAsk(m control.SealedAsk) *CloseError {
	current, ok := r.instances.Has(m.Instance)
	if !ok {
		return r.misplaced(control.IDSealedAsk, m.Instance)
	}
	if current {
		carrier := r.current()
		ids := make([]sealed.ID, moreIDs)
		for i := range ids {
			ids[i] = carrier.Issue()
		}
		r.send(control.AppendSealed(nil, control.IDSealedIDs, m.Instance, ids...))
	}
	return nil
}

// onIDs takes the spare ids that were asked for.
func (r *sealedCarrier) onIDs(m control.SealedIDs) *CloseError {
	current, ok := r.instances.Given(m.Instance)
	if !ok {
		return r.misplaced(control.IDSealedIDs, m.Instance)
	}
	if current {
		r.current().AddIDs(m.IDs...)
		r.attend()
	}
	return nil
}

func (r *sealedCarrier) misplaced(id byte, instance uint32) *CloseError {
	return violationf(ControlChannelMessageFail, "%s of carrier %d arrived at carrier %d", control.Name(id), instance, r.instances.Newest())
}

func (r *sealedCarrier) send(message []byte) {
	c := r.conn
	c.link.Lock()
	err := c.machine.Send(0, bunch.Reliable, message)
	c.link.Unlock()
	if err != nil && !c.closing.Load() {
		c.abort(closeErrorOf(fmt.Errorf("control message of %d bytes: %w", len(message), err)))
	}
}

// carrier says what carries, and why.
func (s *SealedStats) carrier() []string {
	switch {
	case s.Carries:
		return []string{"sealed", statnet.Rate(float64(s.Rate)), fmt.Sprintf("carrier %d of this connection", s.Carriers)}
	case s.State == "off":
		return []string{"QUIC", "sealed is off: Config.Sealed is not set at both ends, or the connection is no QUIC"}
	case s.Err != nil:
		return []string{"QUIC", "sealed is " + s.State, s.Err.Error()}
	}
	return []string{"QUIC", "sealed is " + s.State}
}
