package rpc

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/pace"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/udp"
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
	quic      *quicCarrier
	agreed    atomic.Bool // the peer has the feature too
	attention atomic.Bool // maintain has something to look at
	pinging   atomic.Bool // a ping waits for its turn inside QUIC

	mu      sync.Mutex      // keeps the carrier in place; taken before the link's lock
	carrier *sealed.Carrier // nil before the first
	closed  bool            // with the connection
	past    SealedStats     // of the carriers before
	retry   *time.Timer

	// Under the link's lock; one carrier has ended before the next begins.
	control *pace.Controller

	sealedOpening // belongs to the world's goroutine
}

// share prepares a socket for QUIC, and for sealed packets beside it when the config says so. The caller calls free when it needs
// neither any more.
func (w *World) share(socket net.PacketConn) (conn net.PacketConn, shared *sealed.Socket, free func()) {
	free = func() {}
	if w.sockets != nil {
		socket, free = w.sockets.Add(socket)
	}
	if !w.config.Sealed {
		return socket, nil, free
	}
	shared = sealed.NewSocket(socket, sealed.SocketConfig{})
	if _, ok := socket.(*net.UDPConn); !ok {
		return shared.QUIC(), shared, free // quic-go asks it for what it can
	}
	if err := shared.AskBuffers(udp.BufferBytes); err != nil {
		w.log.Warn("the socket's buffers are small for sealed packets", "addr", socket.LocalAddr(), "error", err)
	}
	return shared.QUIC(), shared, free
}

// newSealedCarrier returns nil when this side has none.
func newSealedCarrier(c *Conn) *sealedCarrier {
	quic, ok := c.carrier.(*quicCarrier)
	if !ok || quic.socket == nil {
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
	if r.closed {
		stats.State = sealed.Closed.String()
	}
	if r.carrier == nil {
		return stats
	}
	stats.add(r.carrier)
	stats.State, stats.Err = r.carrier.State().String(), r.carrier.Err()
	r.carrier.Lock()
	stats.Rate, stats.Window = int(r.control.Rate()), r.control.Window()
	r.carrier.Unlock()
	return stats
}

// add adds what a carrier counted; nil is none.
func (s *SealedStats) add(carrier *sealed.Carrier) {
	if carrier == nil {
		return
	}
	c := carrier.Stats()
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
	r.conn.world.signal()
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
	carrier, err := sealed.NewCarrier(r.quic.socket, r.config(instance))
	if err != nil {
		return nil, err
	}
	r.past.add(r.carrier)
	r.carrier = carrier
	return carrier, nil
}

// config is that of an instance, whose source is the connection's link, under its lock.
func (r *sealedCarrier) config(instance uint32) sealed.Config {
	tls, source := r.quic.conn.ConnectionState().TLS, r.conn.link.Source()
	c := sealed.Config{
		SessionConfig: sealed.SessionConfig{
			Exporter:   tls.ExportKeyingMaterial,
			Instance:   instance,
			Client:     !r.conn.server,
			Source:     source,
			Controller: r.control,
			RTT:        r.quic.Path().SmoothedRTT,
			PlayDelay:  r.conn.machine.Params().AckDelay,
			Other:      r.quic.received,
		},
		Mutex:     source,
		Turned:    source.Turned,
		Woken:     source.Woken,
		Addrs:     r.quic.addrs,
		MaxPacket: r.quic.maxPacket,
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

// addrs returns where the connection sends to, and from where.
func (c *quicCarrier) addrs() (remote, local net.Addr) {
	return c.conn.RemoteAddr(), c.conn.LocalAddr()
}

// received counts the packets that came over QUIC.
func (c *quicCarrier) received() uint64 { return c.conn.ConnectionStats().PacketsReceived }

// maxPacket returns the largest UDP payload in bytes that the path is known to take: a datagram and what quic-go leaves
// for its frame: type, connection id, at least a byte of packet number, tag.
func (c *quicCarrier) maxPacket() int {
	const short = 1 + connectionIDBytes + 1 + 16
	if most := c.Path().MaxDatagram; most > 0 {
		return most + short
	}
	return sealed.SafePacket
}
