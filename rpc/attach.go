package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/udp"
)

// A Carrier is the transport of one connection: it exchanges datagrams with one peer. Datagrams
// may be lost, and may arrive in any order.
//
// [Listen] and [Dial] make carriers from QUIC connections. [World.Attach] and [World.Connect]
// accept any other carrier, such as a WebTransport session. Tests in virtual time can use a pair
// in memory, like the one in bubble_test.go.
//
// A carrier must encrypt and authenticate datagrams, because nothing above it does. Its methods
// are called concurrently.
//
// It may have two more methods:
//
//   - RemoteAddr() net.Addr returns the peer's address. [Conn.RemoteAddr] returns it, and it is
//     the address to which the per-address limits apply.
//   - SendQueue() int returns the number of datagrams that the carrier accepts, and sends in
//     order, before SendDatagram blocks. The number must never change. With SendQueue, calls are
//     sent without waking a goroutine.
type Carrier interface {
	// SendDatagram sends p without retaining it. It may block, but CloseWithError must then
	// unblock it. It must accept 1,163 bytes, and it returns a [*TooLargeError] for a datagram
	// that is too large for the path. Any other error ends the connection.
	SendDatagram(p []byte) error

	// ReceiveDatagram returns the next datagram, which the caller may keep. It returns soon
	// after ctx is done. Any error ends the connection.
	//
	// If the peer has closed the connection, the error should be, or wrap, a [*CloseError] with
	// Remote set and the peer's code and reason. Any other error becomes the cause of
	// ConnectionLost.
	ReceiveDatagram(ctx context.Context) ([]byte, error)

	// Path returns what the carrier currently knows about the path. It is called for every
	// datagram and must not block.
	Path() Path

	// CloseWithError closes the connection and sends code and reason to the peer. code is a
	// [Code], and reason has at most 256 bytes. It is called once, at the end.
	CloseWithError(code uint64, reason string) error
}

// Path describes the path to a peer, as its [Carrier] knows it. A zero field is unknown.
type Path struct {
	Cwnd        int           // bytes that may be in flight; any more would wait inside the carrier
	SmoothedRTT time.Duration // round trip time
	MaxDatagram int           // bytes that SendDatagram accepts, at least 1,163; 0 means 1,163
}

// A TooLargeError is returned by a [Carrier]'s SendDatagram for a datagram that is too large
// for the path. We then send its content again in smaller datagrams.
type TooLargeError struct {
	Max int // size of the largest datagram that the path takes now, in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("rpc: datagram too large, the path takes %d bytes", e.Max)
}

// A carrierAdapter turns a Carrier into a link.Carrier by adding the methods that a Carrier may
// lack.
type carrierAdapter struct{ Carrier }

// SendQueue returns 0 if the Carrier has no SendQueue.
func (a carrierAdapter) SendQueue() int {
	if q, ok := a.Carrier.(interface{ SendQueue() int }); ok {
		return q.SendQueue()
	}
	return 0
}

// RemoteAddr returns nil if the Carrier has no RemoteAddr.
func (a carrierAdapter) RemoteAddr() net.Addr {
	if addressed, ok := a.Carrier.(interface{ RemoteAddr() net.Addr }); ok {
		return addressed.RemoteAddr()
	}
	return nil
}

func (a carrierAdapter) Path() link.Path { return link.Path(a.Carrier.Path()) }

func (a carrierAdapter) SendDatagram(p []byte) error { return linkError(a.Carrier.SendDatagram(p)) }

func (a carrierAdapter) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	p, err := a.Carrier.ReceiveDatagram(ctx)
	return p, linkError(err)
}

// linkError converts an error from a Carrier into the one that package link expects.
func linkError(err error) error {
	if large, ok := errors.AsType[*TooLargeError](err); ok {
		return &link.TooLargeError{Max: large.Max}
	}
	if closed, ok := errors.AsType[*CloseError](err); ok {
		return &link.CloseError{
			Code:   uint64(closed.Code),
			Reason: closed.Reason,
			Remote: closed.Remote,
			Cause:  err,
		}
	}
	return err
}

// HandshakeStats counts the clients that have connected or have tried to.
type HandshakeStats struct {
	Open    int    // in their handshake now
	Begun   uint64 // got a place; below Config.RetryAbove, this includes forged first packets
	Retries uint64 // first packets that were answered by a request to prove the address

	// Refused counts clients that hit a limit: MaxHandshakes, MaxConns, or a limit per address.
	// A client that QUIC refuses counts once for each packet.
	Refused uint64

	Evicted uint64 // lost their place during their handshake, to make room for another client
	Failed  uint64 // had a carrier but didn't join, for any reason

	LoginsFailed uint64 // logins that Authenticate refused
	LoginsSlowed uint64 // logins refused without asking Authenticate: see Config.MaxLoginFailures
}

// HandshakeStats returns a snapshot. It is safe for concurrent use.
func (w *World) HandshakeStats() HandshakeStats { return w.lobby.stats() }

// Attach uses carrier as the server's end of a new connection. It returns without waiting for the
// handshake, which runs in the background and ends with OnConnect or Done. The world owns the
// carrier from this call on, even if Attach returns an error.
func (w *World) Attach(carrier Carrier) (*Conn, error) {
	if !w.IsServer() {
		err := errorf("rpc: Attach on a client's world; a client takes its end by Connect: %w", ErrWrongRole)
		_ = carrier.CloseWithError(uint64(HostClosedConnection), "this is a client")
		return nil, err
	}
	c := newServerConn(w, carrierAdapter{carrier})
	if err := w.attach(c, nil); err != nil {
		return nil, err
	}
	return c, nil
}

// Connect uses carrier as the client's end of a new connection, and returns when the server
// has welcomed the client. The world need not be driven for that. The world owns the
// carrier from this call on, even if Connect returns an error.
//
// The first Connect makes the world a client for good, so the world must not have a listener,
// actors or clients. A client may connect again, to the same server or another one, whether its
// earlier connections have ended or not. Each connection has its own actors, for which
// [Actor.Conn] returns that connection. The actors end in the Dispatch that runs the connection's
// OnDisconnect.
func (w *World) Connect(ctx context.Context, carrier Carrier) (*Conn, error) {
	return w.connect(ctx, carrierAdapter{carrier})
}

// connect attaches the carrier of a client, and waits until the server welcomes us, unless the
// connection or ctx ends first.
func (w *World) connect(ctx context.Context, carrier link.Carrier) (*Conn, error) {
	if err := w.lobby.becomeClient(w.actors.alive.Load()); err != nil {
		_ = carrier.CloseWithError(uint64(HostClosedConnection), "this is a server")
		return nil, err
	}
	c := newClientConn(w, carrier)
	if err := w.attach(c, nil); err != nil {
		return nil, err
	}
	select {
	case <-c.life.welcomed:
		return c, nil
	case <-c.life.done:
		return nil, c.closeError()
	case <-ctx.Done():
		c.abort(&CloseError{Reason: "the client gave up"})
		<-c.life.done
		return nil, context.Cause(ctx)
	}
}

// attach starts a new connection. v is the client's place among the handshakes if it came through
// a [Listener], and nil otherwise.
func (w *World) attach(c *Conn, v *visit) error {
	w.freeze()

	// Take a place in the world, which may cost another client its handshake.
	evicted, full := w.lobby.enlist(c, c.origin(), v)
	w.evict(evicted)
	if full != nil {
		w.logs.Stranger(logs.Refused, "connection refused",
			"conn", c, "code", full.Code.String(), "reason", full.Reason)
		_ = c.carrier.CloseWithError(uint64(full.Code), full.Reason)
		return full
	}

	now := time.Now()
	c.machine = c.newMachine(now)
	c.rates.Start(now)
	c.sealed = newSealedCarrier(c)
	closed := c.start()
	w.lobby.attaching.Done()
	if closed != nil {
		// The world was closed in the meantime.
		c.Close(closed.Code, closed.Reason)
	}
	return nil
}

// evict ends a handshake to make room for another one. It does nothing if c is nil.
func (w *World) evict(c *Conn) {
	if c == nil {
		return
	}
	busy := &CloseError{
		Code:   ServerBusy,
		Reason: "it had not joined yet, and a full server or address gave its place away: see Config.MaxHandshakes, MaxHandshakesPerAddress",
	}

	// Abort the link even if we have already closed the connection and are still sending the
	// client a refusal. Conn.abort wouldn't do so in that case.
	c.life.stop(busy)
	c.link.Abort(uint64(busy.Code), busy.Reason)
}

// Dial connects world to the server at addr ("host:port"). It returns when the
// server has welcomed the client. The world need not be driven for that. Each Dial
// makes a new connection, even if one is open: see [World.Connect]. cert.Pinned
// makes a config that trusts one certificate.
//
// If the host has several addresses, Dial tries up to six of them, alternating between IPv4 and
// IPv6 and beginning with IPv4. It starts the next attempt after a quarter of a second (RFC
// 8305), or at once if an attempt has failed. Earlier attempts continue meanwhile. If an address
// refuses, or has a wrong certificate, Dial waits 2 s more for the silent addresses. If none
// connects, Dial returns the first error that isn't a timeout, if any.
//
// If too many other clients are in their handshake with the server, Dial tries again by itself,
// with pauses of up to a second, for as long as ctx and Config.HandshakeTimeout allow another
// attempt. Many players may therefore dial at the same moment.
//
// The error is a [*CloseError] if the server still refuses at the last attempt, if it refuses for
// another reason, such as Config.MaxConns, or if the connection ends before the welcome. The
// error's Temporary method reports whether another attempt may succeed. Even after the welcome, a
// server under pressure may take back the place of a client that is joining. The Conn then ends
// with ServerBusy.
//
// If nobody answers, Dial fails after half of Config.HandshakeTimeout for each address, or
// when ctx ends. The error is then a net.Error whose Timeout is true, and another attempt may
// succeed. The same holds if this machine has no network at the time. Other errors are
// permanent, such as cert.ErrPinned or the error of an invalid address.
//
// Before Dial returns an error, it closes the socket, which may take a second. After a successful
// Dial, [Conn.Wait] waits until the socket is closed.
func Dial(ctx context.Context, addr string, config *tls.Config, world *World) (*Conn, error) {
	if world == nil {
		return nil, errorf("rpc: Dial %q for a nil *World", addr)
	}
	remotes, host, err := quicconn.Resolve(ctx, addr)
	if err != nil {
		return nil, errorf("rpc: Dial %q: %w", addr, err)
	}
	server := target{addrs: remotes, host: host, config: config}
	c, err := retryWhileBusy(ctx, world.config.HandshakeTimeout, func() (*Conn, error) {
		socket, err := net.ListenUDP("udp", nil)
		if err != nil {
			return nil, err
		}
		return dial(ctx, world, socket, server, func() { _ = socket.Close() })
	})
	if err != nil {
		return nil, errorf("rpc: Dial %q: %w", addr, err)
	}
	return c, nil
}

// DialPacket is like Dial, but uses the caller's socket. The caller must close the socket, after
// [Conn.Wait] or after an error.
//
// quic-go tries to enlarge the socket's receive buffer. If it can't, for instance because the
// socket has no SetReadBuffer, it logs this once with package log. The environment variable
// QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true prevents that.
func DialPacket(
	ctx context.Context, socket net.PacketConn, addr net.Addr, config *tls.Config, world *World,
) (*Conn, error) {
	if world == nil {
		return nil, errors.New("rpc: DialPacket for a nil *World")
	}
	server := target{addrs: []net.Addr{addr}, config: config}
	c, err := retryWhileBusy(ctx, world.config.HandshakeTimeout, func() (*Conn, error) {
		return dial(ctx, world, socket, server, func() {})
	})
	if err != nil {
		return nil, errorf("rpc: Dial %v: %w", addr, err)
	}
	return c, nil
}

// Backoff of a client that is refused because of other handshakes. Pauses begin at firstPause and
// double up to maxPause. Each pause is shortened by a random amount, up to half, to spread the
// clients out.
//
// A server admits some hundred clients a second, and a refusal costs it one packet.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = time.Second
)

// retryWhileBusy calls dial until the server has room for the handshake. When the time left
// before the limit or ctx's deadline is too short for another pause, it gives up and returns the
// server's refusal.
func retryWhileBusy(ctx context.Context, limit time.Duration, dial func() (*Conn, error)) (*Conn, error) {
	until := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	var refused error
	for longest := firstPause; ; longest = min(2*longest, maxPause) {
		c, err := dial()
		if err != nil && refused != nil && ctx.Err() == context.DeadlineExceeded {
			// This attempt had no time to get an answer. The last refusal is more informative.
			return nil, refused
		}
		pause := longest - rand.N(longest/2)
		if err == nil || !busy(err) || time.Now().Add(pause).After(until) {
			return c, err
		}
		refused = err
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// busy reports whether a server has refused a client because other clients are in their
// handshake, which is a temporary condition.
func busy(err error) bool {
	closed, ok := errors.AsType[*CloseError](err)
	return ok && closed.Remote && closed.Code == ServerBusy
}

// A target is the server that a client dials.
type target struct {
	addrs  []net.Addr
	host   string // for TLS; empty if the caller gave an address
	config *tls.Config
}

// dial makes a single attempt to connect, over a transport of its own. It calls free when the
// socket is no longer used.
func dial(
	ctx context.Context, world *World, socket net.PacketConn, server target, free func(),
) (*Conn, error) {
	if server.config == nil {
		free()
		return nil, errors.New("a TLS config is needed; see cert.Pinned")
	}
	if err := world.lobby.mayBecomeClient(world.actors.alive.Load()); err != nil {
		free()
		return nil, err
	}
	conn, shared, release := world.share(socket, nil)
	tlsConfig := quicconn.TLS(server.config, server.host)
	carrier, err := quicconn.Dial(ctx, conn, shared, server.addrs, tlsConfig, world.config.quic(), func() {
		release()
		free()
	})
	if refused, ok := errors.AsType[*quicconn.RefusedError](err); ok {
		return nil, &CloseError{
			Code:   ServerBusy,
			Reason: "the server takes no handshake now, or none from this address",
			Remote: true,
			cause:  refused.Unwrap(),
		}
	}
	if err != nil {
		return nil, err
	}
	c, err := world.connect(ctx, carrier)
	if err != nil {
		carrier.Wait()
	}
	return c, err
}

// share wraps a socket for QUIC and, with Config.Sealed, also for sealed packets. If the system
// refuses to send a packet, the packet counts as lost, and the connection lives on.
//
// guard, which may be nil, inspects QUIC packets. The caller must call release when it no longer
// uses the socket.
func (w *World) share(
	socket net.PacketConn, guard sealed.Guard,
) (conn net.PacketConn, shared *sealed.Socket, release func()) {
	if _, ok := socket.(*net.UDPConn); ok && w.config.Sealed {
		// For all other sockets, quic-go sets the buffers itself.
		if err := udp.AskBuffers(socket, udp.BufferBytes); err != nil {
			w.log.Warn("the socket's buffers are small for sealed packets",
				"addr", socket.LocalAddr(), "error", err)
		}
	}
	release = func() {}
	if w.sockets != nil {
		socket, release = w.sockets.Add(socket)
	}
	if w.config.Sealed {
		shared = sealed.NewSocket(socket, sealed.SocketConfig{Guard: guard})
		return shared.QUIC(), shared, release
	}
	return sealed.NewSocket(socket, sealed.SocketConfig{Guard: guard, NoOffload: true}).QUIC(), nil, release
}
