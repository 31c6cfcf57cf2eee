package rpc

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/raw"
)

// RawSource has the payloads for the sealed packets of a connection and takes those of the peer. Its methods are called
// on goroutines of the carrier, one at a time, and must neither block nor call the connection or its [RawCarrier]; World.Post is
// allowed.
type RawSource = raw.Source

// RawState is how a raw carrier stands: opening, open, silent (no packet gets through, all in flight was given back as
// lost, and that may change) or closed (as silent for 10 s, or never opened).
type RawState = raw.State

// RawOpen is the state in which payloads leave.
const RawOpen = raw.Open

// RawStats counts sealed packets, of all carriers that the connection had.
type RawStats struct {
	Carriers                             uint32 // opened so far, here
	PacketsIn, PacketsOut                uint64
	BytesIn, BytesOut                    uint64
	PayloadBytesIn, PayloadBytesOut      uint64
	PacketsAcked, PacketsLost, Discarded uint64 // Discarded on arrival, for whatever reason
}

// RawCarrier is the sealed carrier of one connection: packets beside QUIC's on the same socket, paced by a controller
// that lives with random loss. It opens when both ends have joined, and has no goroutine while it is idle. Its methods
// are safe from any goroutine, but not from a [RawSource], except where they say so.
type RawCarrier struct {
	conn      *Conn
	quic      *quicCarrier
	agreed    atomic.Bool // the peer has the feature too
	attention atomic.Bool // tend has something to look at
	wanted    atomic.Bool

	mu      sync.Mutex   // keeps the carrier in place; taken before the carrier's lock
	carrier *raw.Carrier // nil before the first
	closed  bool         // with the connection
	past    RawStats     // of the carriers before
	retry   *time.Timer

	// Under the carrier's lock; one carrier has ended before the next begins.
	control *pace.Controller
	play    playRate

	rawOpening // belongs to the world's goroutine
}

// OnRaw sets what gives each connection the source of its sealed packets; nil for one leaves the carrier out. It runs on
// the world's goroutine after the OnConnect hooks. Without it, or Config.RawCarrier, there are no raw carriers. It is to
// be called before the first connection.
func (w *World) OnRaw(source func(*Conn) RawSource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen {
		panic("rpc: OnRaw after the first connection")
	}
	w.onRaw = source
}

// share prepares a socket for QUIC, and for sealed packets beside it when the config says so.
func (w *World) share(socket net.PacketConn) (net.PacketConn, *raw.Socket) {
	if !w.config.RawCarrier {
		return socket, nil
	}
	shared := raw.NewSocket(socket, raw.SocketConfig{})
	if _, ok := socket.(*net.UDPConn); !ok {
		return shared.QUIC(), shared // quic-go asks it for what it can
	}
	if err := shared.AskBuffers(raw.BufferBytes); err != nil {
		w.log.Warn("the socket's buffers are small for raw carriers", "addr", socket.LocalAddr(), "error", err)
	}
	return shared.QUIC(), shared
}

// newRawCarrier returns nil when this side has none.
func newRawCarrier(c *Conn) *RawCarrier {
	quic, ok := c.carrier.(*quicCarrier)
	if !ok || quic.socket == nil || c.world.onRaw == nil {
		return nil
	}
	return &RawCarrier{conn: c, quic: quic}
}

// State returns how the carrier stands. A change of it makes [World.Run] tick.
func (r *RawCarrier) State() RawState {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.carrier != nil:
		return r.carrier.State()
	case r.closed:
		return raw.Closed
	}
	return raw.Opening
}

// Want says whether the owner has use for an open carrier: while it has, a closed one is replaced, 10 s after it closed.
func (r *RawCarrier) Want(on bool) {
	if r.wanted.Swap(on) != on && on {
		r.attend()
	}
}

// Wake says that the source may have payloads now.
func (r *RawCarrier) Wake() {
	r.lock()
	r.unlock()
}

// lock takes the lock around the source. Its holder stops the carrier.
func (r *RawCarrier) lock() {
	r.mu.Lock()
	if r.carrier != nil {
		r.carrier.Lock()
	}
}

// unlock releases the lock and has the source asked for payloads.
func (r *RawCarrier) unlock() {
	if r.carrier != nil {
		r.carrier.Unlock()
	}
	r.mu.Unlock()
}

// Rate returns at how many bytes a second the carrier sends, 0 = not known. It is for the methods of a [RawSource] only.
func (r *RawCarrier) Rate() float64 {
	if r.control == nil {
		return 0
	}
	return r.control.Rate()
}

// Loss returns the share of packets that are lost. It is for the methods of a [RawSource] only.
func (r *RawCarrier) Loss() float64 {
	if r.control == nil {
		return 0
	}
	return r.control.Loss()
}

// Stats returns a snapshot of the counters.
func (r *RawCarrier) Stats() RawStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := r.past
	stats.add(r.carrier)
	return stats
}

// add adds what a carrier counted; nil is none.
func (s *RawStats) add(carrier *raw.Carrier) {
	if carrier == nil {
		return
	}
	c := carrier.Stats()
	s.Carriers++
	s.PacketsIn += c.Received
	s.PacketsOut += c.Sent
	s.BytesIn += c.ReceivedBytes
	s.BytesOut += c.SentBytes
	s.PayloadBytesIn += c.TakenBytes
	s.PayloadBytesOut += c.PayloadBytes
	s.PacketsAcked += c.Acked
	s.PacketsLost += c.Lost
	s.Discarded += c.Dropped() + c.Full + c.Elsewhere
}

// attend has the world's goroutine look.
func (r *RawCarrier) attend() {
	r.attention.Store(true)
	r.conn.world.signal()
}

func (r *RawCarrier) current() *raw.Carrier {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carrier
}

// close ends the carrier with the connection, and returns at once.
func (r *RawCarrier) close() {
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

// wait returns when a closed carrier uses its source and socket no more.
func (r *RawCarrier) wait() {
	if carrier := r.current(); carrier != nil {
		<-carrier.Done()
	}
}

// renew makes the carrier of an instance, in the place of one that has ended; nil when the connection is closed.
func (r *RawCarrier) renew(instance uint32) (*raw.Carrier, error) {
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
	tls := r.quic.conn.ConnectionState().TLS
	carrier, err := raw.NewCarrier(r.quic.socket, raw.Config{
		SessionConfig: raw.SessionConfig{
			Exporter:   tls.ExportKeyingMaterial,
			Instance:   instance,
			Client:     !r.conn.server,
			Source:     r.source,
			Controller: r.control,
			Rate:       r.conn.rawRate(),
			RTT:        r.quic.Path().SmoothedRTT,
		},
		Addrs:     r.quic.addrs,
		MaxPacket: r.quic.maxPacket,
		Ping:      r.ping,
		Observe:   r.observe,
		Arrived:   r.arrived,
		Changed:   r.changed,
	})
	if err != nil {
		return nil, err
	}
	r.past.add(r.carrier)
	r.carrier = carrier
	return carrier, nil
}

// rawRate returns nil without a limit.
func (c *Conn) rawRate() raw.Rate {
	if !c.allowance.limited() {
		return nil
	}
	return c.allowance
}

// changed is called on the carrier's goroutine.
func (r *RawCarrier) changed(state raw.State) {
	if state == raw.Closed {
		r.judge(r.current().Err())
	}
	r.attend()
}

// judge closes the connection when its carrier ended because the peer broke the protocol.
func (r *RawCarrier) judge(err error) {
	var ended *raw.Error
	if errors.As(err, &ended) && ended.Kind == raw.Violation {
		r.conn.world.violated(r.conn, &CloseError{Code: RawViolation, Reason: ended.Reason, cause: err})
	}
}

// ping has QUIC send something that is acked. What is under way on the control channel will do: it is sent again and
// again. It is called on the carrier's goroutine.
func (r *RawCarrier) ping() {
	c := r.conn
	c.link.Lock()
	if out, _ := c.machine.Reliable(0); out == 0 && !c.closing.Load() {
		_ = c.machine.Send(0, bunch.Reliable, []byte{idRawPing}) // an ended connection says so elsewhere
	}
	c.link.Unlock()
	r.attend() // spare ids are looked after at this pace
}

// observe is called on the carrier's goroutine, under its lock.
func (r *RawCarrier) observe(now time.Time, control *pace.Controller) {
	stats := r.quic.conn.ConnectionStats()
	control.QUIC(now, stats.LatestRTT, int(stats.CongestionWindow))
	if rate, ok := r.play.sample(now, r.conn.link.Stats().BytesOut); ok {
		control.Play(rate)
	}
}

// arrived has play learn of its losses from sealed packets, which take the same path. It is called on the carrier's
// goroutine.
func (r *RawCarrier) arrived(sent time.Time) { r.conn.link.Overtake(sent) }

// playRate measures how many bytes a second leave over QUIC.
type playRate struct {
	at    time.Time
	bytes uint64
}

// playTime is over how long: three ticks at 30 Hz.
const playTime = 100 * time.Millisecond

// sample returns the rate since the last one, when that is long enough ago.
func (p *playRate) sample(now time.Time, bytes uint64) (rate float64, ok bool) {
	elapsed := now.Sub(p.at)
	if p.at.IsZero() || elapsed >= playTime {
		rate, ok = float64(bytes-p.bytes)/elapsed.Seconds(), !p.at.IsZero()
		p.at, p.bytes = now, bytes
	}
	return rate, ok
}

// addrs returns where the connection sends to, and from where.
func (c *quicCarrier) addrs() (remote, local net.Addr) {
	return c.conn.RemoteAddr(), c.conn.LocalAddr()
}

// maxPacket returns the largest UDP payload in bytes that the path is known to take: a datagram and what quic-go leaves
// for its frame: type, connection id, at least a byte of packet number, tag.
func (c *quicCarrier) maxPacket() int {
	const short = 1 + connectionIDBytes + 1 + 16
	if most := c.Path().MaxDatagram; most > 0 {
		return most + short
	}
	return raw.SafePacket
}
