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
// A carrier may implement two optional methods:
//
//   - RemoteAddr() net.Addr returns the peer's address. [Conn.RemoteAddr] returns it, and the
//     per-address limits of [Config] apply to it.
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
	Max int // size of the largest datagram that the path currently carries, in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("rpc: datagram too large; the limit of the path is %d bytes", e.Max)
}

// The optional methods of a [Carrier].
type (
	addrCarrier  interface{ RemoteAddr() net.Addr }
	queueCarrier interface{ SendQueue() int }
)

// A carrierAdapter turns a Carrier into a link.Carrier, for which the optional methods of a
// Carrier are mandatory.
type carrierAdapter struct{ Carrier }

// SendQueue returns 0 if the Carrier has no SendQueue.
func (a carrierAdapter) SendQueue() int {
	if c, ok := a.Carrier.(queueCarrier); ok {
		return c.SendQueue()
	}
	return 0
}

// RemoteAddr returns nil if the Carrier has no RemoteAddr.
func (a carrierAdapter) RemoteAddr() net.Addr {
	if c, ok := a.Carrier.(addrCarrier); ok {
		return c.RemoteAddr()
	}
	return nil
}

func (a carrierAdapter) Path() link.Path { return link.Path(a.Carrier.Path()) }

func (a carrierAdapter) SendDatagram(p []byte) error { return linkError(a.Carrier.SendDatagram(p)) }

func (a carrierAdapter) ReceiveDatagram(ctx context.Context) ([]byte, error) {
	p, err := a.Carrier.ReceiveDatagram(ctx)
	return p, linkError(err)
}

// linkError converts the exported error types that a Carrier returns into those of package link.
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
	Open    int    // handshakes in progress
	Begun   uint64 // handshakes begun; below Config.RetryAbove, this includes forged first packets
	Retries uint64 // first packets answered by a Retry, which validates the client's address

	// Refused counts clients that hit a limit: MaxHandshakes, MaxConns, or a limit per address.
	// A client that QUIC refuses counts once for each packet.
	Refused uint64

	Evicted uint64 // handshakes ended to make room for another client
	Failed  uint64 // clients that had a carrier but didn't join, for any reason

	LoginsFailed uint64 // logins that Authenticate refused
	LoginsSlowed uint64 // logins refused without calling Authenticate: see Config.MaxLoginFailures
}

// HandshakeStats returns a snapshot. It is safe for concurrent use.
func (w *World) HandshakeStats() HandshakeStats { return w.lobby.stats() }

// Attach uses carrier as the server's end of a new connection. It returns without waiting for the
// handshake, which runs in the background and ends with OnConnect or Done. The world owns the
// carrier from this call on, even if Attach returns an error.
func (w *World) Attach(carrier Carrier) (*Conn, error) {
	if !w.IsServer() {
		err := errorf("rpc: Attach on a client: use Connect for the client's end of a connection: %w", ErrWrongRole)
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
// has welcomed the client, even if nothing drives the world in the meantime. The world owns the
// carrier from this call on, even if Connect returns an error.
//
// The first Connect makes the world a client permanently, so the world must not have a listener,
// actors or clients. A client may connect again, to the same server or another one, even while
// its earlier connections are open. Each connection has its own actors, for which [Actor.Conn]
// returns that connection. They end in the Dispatch that runs the connection's OnDisconnect.
func (w *World) Connect(ctx context.Context, carrier Carrier) (*Conn, error) {
	return w.connect(ctx, carrierAdapter{carrier})
}

// connect attaches a client's carrier and waits for the server's Welcome. It returns an error if
// the connection or ctx ends first.
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
		c.abort(&CloseError{Reason: "the client stopped waiting for the Welcome"})
		<-c.life.done
		return nil, context.Cause(ctx)
	}
}

// attach starts a new connection. slot is the handshake slot of a client that came through a
// [Listener], and nil for any other connection.
func (w *World) attach(c *Conn, slot *handshakeSlot) error {
	w.freeze()

	// Admitting the connection may end another client's handshake.
	evicted, refused := w.lobby.enlist(c, c.origin(), slot)
	w.evict(evicted)
	if refused != nil {
		w.logs.LogUnjoined(logs.Refused, "connection refused",
			"conn", c, "code", refused.Code.String(), "reason", refused.Reason)
		_ = c.carrier.CloseWithError(uint64(refused.Code), refused.Reason)
		return refused
	}

	now := time.Now()
	c.machine = c.newMachine(now)
	c.rates.Start(now)
	c.sealed = newSealedCarrier(c)
	closed := c.start()
	w.lobby.attaching.Done()
	if closed != nil {
		// World.Close ran after enlist, so it didn't find this connection.
		c.close(closed.Code, closed.Reason)
	}
	return nil
}

// evict ends the handshake of c to make room for another client. It does nothing if c is nil.
func (w *World) evict(c *Conn) {
	if c == nil {
		return
	}
	busy := &CloseError{
		Code:   ServerBusy,
		Reason: "handshake ended to make room for another client: the server or the client's address reached a limit (Config.MaxHandshakes, MaxHandshakesPerAddress, MaxConns, MaxConnsPerAddress)",
	}

	// Abort the link directly, because Conn.abort does nothing on a connection that is already
	// closing. A connection that is still sending its refusal must give up its slot, too.
	c.life.stop(busy)
	c.link.Abort(uint64(busy.Code), busy.Reason)
}

// Dial connects world to the server at addr ("host:port"), and returns when the server has
// welcomed the client, even if nothing drives the world in the meantime. But until something does,
// no handler runs and no actor exists here; after 5 s of that, Config.Logger gets a warning. Each
// Dial makes a new connection, even if one is open already: see [World.Connect]. To trust a single
// certificate, use the config that cert.Pinned returns.
//
// If the host has several addresses, Dial tries up to six of them, alternating between IPv4 and
// IPv6 and starting with IPv4. It starts the next attempt after 250 ms (RFC 8305) or as soon as
// one fails, while earlier attempts continue. If an address refuses or has a wrong certificate,
// Dial waits another 2 s for addresses that haven't answered. If none connects, Dial returns the
// first error other than a timeout, if any.
//
// If the server is busy with other handshakes, Dial retries automatically, with pauses of up to a
// second, for as long as ctx and Config.HandshakeTimeout allow. Many players can therefore dial at
// the same moment.
//
// If the server refuses the client, or the connection ends before the Welcome, the error is a
// [*CloseError], whose Temporary method reports whether another attempt may succeed. If nobody
// answers, Dial fails when ctx ends or after half of Config.HandshakeTimeout for each address. The
// error is then a net.Error whose Timeout is true, as it is if this machine has no network, and
// another attempt may succeed. All other errors are permanent, such as cert.ErrPinned or the error
// for an invalid address.
//
// Until the client has joined, a server under pressure may still end the connection with
// ServerBusy, even after Dial has returned.
//
// Before Dial returns an error, it closes the socket, which may take a second. After a successful
// Dial, [Conn.Wait] waits until the socket is closed.
func Dial(ctx context.Context, addr string, config *tls.Config, world *World) (*Conn, error) {
	if world == nil {
		return nil, errorf("rpc: Dial %q for a nil *World", addr)
	}
	addrs, host, err := quicconn.Resolve(ctx, addr)
	if err != nil {
		return nil, errorf("rpc: Dial %q: %w", addr, err)
	}
	d := dialer{world: world, addrs: addrs, host: host, tls: config}
	c, err := d.dial(ctx)
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
	if socket == nil {
		return nil, errors.New("rpc: DialPacket with a nil socket")
	}
	d := dialer{world: world, socket: socket, addrs: []net.Addr{addr}, tls: config}
	c, err := d.dial(ctx)
	if err != nil {
		return nil, errorf("rpc: DialPacket to %v: %w", addr, err)
	}
	return c, nil
}

// The backoff for a client that is refused because the server is busy with other handshakes. Pauses
// start at firstPause and double up to maxPause. Each pause is shortened by a random amount, up to
// half, to spread the clients out.
//
// A server admits about a hundred clients a second, and a refusal costs it one packet, so neither
// value is critical.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = time.Second
)

// A dialer connects a world to a server.
type dialer struct {
	world  *World
	socket net.PacketConn // the caller's; if nil, each attempt opens a socket of its own
	addrs  []net.Addr     // addresses of the server
	host   string         // for TLS; empty if the caller passed an address instead
	tls    *tls.Config
}

// dial makes attempts for as long as the server refuses them because it's busy. When the time left
// before HandshakeTimeout or ctx's deadline is too short for another pause, dial gives up and
// returns the refusal.
func (d *dialer) dial(ctx context.Context) (*Conn, error) {
	until := time.Now().Add(d.world.config.HandshakeTimeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	var refused error
	for longest := firstPause; ; longest = min(2*longest, maxPause) {
		c, err := d.attempt(ctx)
		if err != nil && refused != nil && ctx.Err() == context.DeadlineExceeded {
			// This attempt had no time to get an answer, so the last refusal is more informative.
			return nil, refused
		}
		pause := longest - rand.N(longest/2)
		if err == nil || !serverBusy(err) || time.Now().Add(pause).After(until) {
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

// serverBusy reports whether err is a refusal from a server that is busy with other handshakes,
// which is a temporary condition.
func serverBusy(err error) bool {
	closed, ok := errors.AsType[*CloseError](err)
	return ok && closed.Remote && closed.Code == ServerBusy
}

// attempt makes a single attempt to connect, over a QUIC transport of its own.
func (d *dialer) attempt(ctx context.Context) (*Conn, error) {
	w := d.world
	if d.tls == nil {
		return nil, errors.New("a TLS config is required; see cert.Pinned")
	}
	if err := w.lobby.mayBecomeClient(w.actors.alive.Load()); err != nil {
		return nil, err
	}
	socket, err := d.open()
	if err != nil {
		return nil, err
	}
	carrier, err := quicconn.Dial(
		ctx, socket.quic, socket.sealed, d.addrs, quicconn.TLS(d.tls, d.host), w.config.quic(), socket.release)
	if refused, ok := errors.AsType[*quicconn.RefusedError](err); ok {
		return nil, &CloseError{
			Code:   ServerBusy,
			Reason: "the server refused the handshake: it or the client's address has reached a limit",
			Remote: true,
			cause:  refused.Unwrap(),
		}
	}
	if err != nil {
		return nil, err
	}
	c, err := w.connect(ctx, carrier)
	if err != nil {
		carrier.Wait()
	}
	return c, err
}

// open returns the socket for an attempt. If it isn't the caller's, release closes it.
func (d *dialer) open() (sharedSocket, error) {
	if d.socket != nil {
		return d.world.shareSocket(d.socket, nil), nil
	}
	own, err := net.ListenUDP("udp", nil)
	if err != nil {
		return sharedSocket{}, err
	}
	socket := d.world.shareSocket(own, nil)
	release := socket.release
	socket.release = func() {
		release()
		_ = own.Close()
	}
	return socket, nil
}

// A sharedSocket is a UDP socket for QUIC and, if Config.Sealed is set, for sealed packets as well.
type sharedSocket struct {
	quic    net.PacketConn // what QUIC reads from and writes to
	sealed  *sealed.Socket // for sealed packets; nil without Config.Sealed
	release func()         // must be called once neither uses the socket
}

// shareSocket wraps a socket so that QUIC and sealed packets can share it. If the system refuses
// to send a packet, the packet counts as lost, and the connection stays open. guard, which may be
// nil, inspects QUIC packets.
func (w *World) shareSocket(socket net.PacketConn, guard sealed.Guard) sharedSocket {
	if _, ok := socket.(*net.UDPConn); ok && w.config.Sealed {
		// Without Config.Sealed, quic-go sets the buffers itself.
		if err := udp.AskBuffers(socket, udp.BufferBytes); err != nil {
			w.log.Warn("socket buffers are small for sealed packets",
				"addr", socket.LocalAddr(), "error", err)
		}
	}
	release := func() {}
	if w.sockets != nil {
		socket, release = w.sockets.Add(socket)
	}
	shared := sealed.NewSocket(socket, sealed.SocketConfig{Guard: guard, NoOffload: !w.config.Sealed})
	s := sharedSocket{quic: shared.QUIC(), release: release}
	if w.config.Sealed {
		s.sealed = shared
	}
	return s
}
