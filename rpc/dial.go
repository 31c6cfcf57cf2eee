package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/udp"
)

// A Listener accepts connections for a world.
type Listener struct {
	world     *World
	transport *quic.Transport
	listener  *quic.Listener
	socket    net.PacketConn  // opened by Listen and closed by Close; nil = the socket is the caller's
	shared    *sealed.Socket  // nil = no Config.Sealed
	paths     *quicconn.Paths // between the socket and the transport
	unshare   func()          // called when the socket is no longer used
	accepting sync.WaitGroup
	cancel    context.CancelFunc

	mu    sync.Mutex // guards conns and linger
	conns map[*Conn]*quic.Conn
	// Until this time, ended connections still answer, to repeat a close that was lost.
	linger time.Time

	close func() error // calls shutdown once
}

// Listen opens a UDP socket on addr ("host:port", port 0 for any) and accepts
// connections for world. config needs a certificate.
//
// A server that restarts with the same certificate resets the connections of its
// previous process. The clients notice when they next send something, within
// KeepAlive, and need not wait for IdleTimeout (RFC 9000, section 10.3).
func Listen(addr string, config *tls.Config, world *World) (*Listener, error) {
	local, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, errorf("rpc: Listen on %q: %w", addr, err)
	}
	socket, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, errorf("rpc: Listen on %q: %w", addr, err)
	}
	l, err := ListenPacket(socket, config, world)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	l.socket = socket
	return l, nil
}

// ListenPacket is Listen on a socket of the caller. The caller closes the socket
// after the listener.
func ListenPacket(socket net.PacketConn, config *tls.Config, world *World) (*Listener, error) {
	if world == nil {
		return nil, errors.New("rpc: Listen for a nil *World")
	}
	if !hasCertificate(config) {
		return nil, errors.New("rpc: Listen needs a TLS config with a certificate; see cert.Development")
	}
	world.freeze()
	if err := world.lobby.addListener(); err != nil {
		return nil, err
	}
	paths := quicconn.NewPaths(world.heldBack)
	conn, shared, unshare := world.share(socket, paths)
	transport := world.newTransport(conn, config, paths)
	listener, err := transport.Listen(quicconn.TLS(config, ""), world.config.quic())
	if err != nil {
		_ = transport.Close()
		unshare()
		world.lobby.removeListener()
		return nil, errorf("rpc: Listen on %v: %w", socket.LocalAddr(), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Listener{
		world:     world,
		transport: transport,
		listener:  listener,
		shared:    shared,
		paths:     paths,
		unshare:   unshare,
		cancel:    cancel,
		conns:     make(map[*Conn]*quic.Conn),
	}
	l.close = sync.OnceValue(l.shutdown)
	paths.Follow(l.remotes)
	l.accepting.Go(func() { l.accept(ctx) })
	return l, nil
}

// hasCertificate reports whether config names a certificate or a function that returns one.
func hasCertificate(config *tls.Config) bool {
	return config != nil &&
		(len(config.Certificates) > 0 || config.GetCertificate != nil || config.GetConfigForClient != nil)
}

// newTransport returns the transport of a listener. paths learns of each client that begins.
func (w *World) newTransport(conn net.PacketConn, config *tls.Config, paths *quicconn.Paths) *quic.Transport {
	return &quic.Transport{
		Conn:                conn,
		ConnectionIDLength:  quicconn.ConnectionIDBytes,
		VerifySourceAddress: func(addr net.Addr) bool { return w.mustProve(addr, paths.MustProve(addr)) },
		ConnContext: func(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
			ctx, err := w.onInitial(ctx, client)
			if err == nil {
				paths.Begin(ctx, client.RemoteAddr, client.AddrVerified)
			}
			return ctx, err
		},
		StatelessResetKey: quicconn.ResetKey(config),
		TokenGeneratorKey: quicconn.TokenKey(config),
	}
}

// mustProve reports whether a client whose first packet arrived from addr must be sent a
// Retry. quic-go calls it for every first packet without a valid token. addr may be forged.
// suspect reports that several clients from there have begun without a proof.
func (w *World) mustProve(addr net.Addr, suspect bool) bool {
	must, open := w.lobby.mustProve(suspect)
	if !must {
		return false
	}
	// Let quic-go's goroutine that sends Retries run. quic-go queues only eight
	// Retries for it, and drops more.
	runtime.Gosched()
	cause, why := logs.Retry, "as many are in their handshake as Config.RetryAbove allows"
	if suspect {
		cause, why = logs.Household, "several from there have begun without a proof"
	}
	w.logs.Stranger(cause, "new clients must prove their address",
		"addr", addr, "handshakes", open, "Config.RetryAbove", w.config.RetryAbove, "why", why)
	return true
}

// heldBack logs a warning that QUIC packets to an address are dropped.
func (w *World) heldBack(to net.Addr) {
	w.logs.Stranger(logs.Unproven, "answers of QUIC dropped: little came from an address that no client has proven",
		"addr", to)
}

// visitKey is the key of a client's visit in the context of its QUIC connection.
type visitKey struct{}

// onInitial reserves a place among the handshakes for a client. An error refuses the
// client. quic-go calls onInitial, as quic.Transport.ConnContext, before it creates
// any state for the client.
func (w *World) onInitial(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	v, out, none := w.lobby.arrive(client.RemoteAddr, client.AddrVerified)
	w.evict(out)
	if full := serverFull(none); full != nil {
		w.logs.Stranger(logs.Refused, "handshake refused",
			"addr", client.RemoteAddr, "code", full.Code.String(), "reason", full.Reason)
		return nil, full
	}
	context.AfterFunc(ctx, func() { w.lobby.leave(v) })
	return context.WithValue(ctx, visitKey{}, v), nil
}

// Addr returns the address of the listener's socket.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close stops accepting and closes the listener's connections with
// HostClosedConnection. It returns when they have ended and the socket is closed. To
// close with a code and a reason of the game's, call [World.Close] first.
//
// Close returns after about two seconds at most. It returns at once if there are no connections
// and none was closed a moment ago, or if their clients have sent nothing for a while.
func (l *Listener) Close() error { return l.close() }

// shutdown closes all connections and then the socket. In between it answers peers
// for as long as they may repeat packets.
func (l *Listener) shutdown() error {
	l.cancel()
	err := l.listener.Close()
	l.accepting.Wait()
	conns, linger := l.snapshot()
	for c, conn := range conns {
		linger = max(linger, lingerTime(c, conn))
		c.Close(HostClosedConnection, "the server closed its listener")
	}
	for c := range conns {
		<-c.Done()
	}
	time.Sleep(linger)
	err = errors.Join(err, l.transport.Close())
	l.unshare()
	l.world.lobby.removeListener()
	if l.socket != nil {
		err = errors.Join(err, l.socket.Close())
	}
	return err
}

// lingerTime returns how long a connection should still answer packets after its close. It is
// 0 if the peer has been silent for that long, because the peer then has nothing to send.
func lingerTime(c *Conn, conn *quic.Conn) time.Duration {
	linger := quicconn.LingerTime(conn)
	if c.link.Silence() >= linger {
		return 0
	}
	return linger
}

// snapshot returns the connections, and how long ended connections must still answer.
func (l *Listener) snapshot() (map[*Conn]*quic.Conn, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.conns), time.Until(l.linger)
}

// remotes yields the numbers and remote addresses of all connections.
func (l *Listener) remotes(yield func(conn uint64, at net.Addr) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, conn := range l.conns {
		if !yield(c.id, conn.RemoteAddr()) {
			return
		}
	}
}

// accept attaches each new connection to the world. It runs on its own goroutine
// until shutdown closes the QUIC listener.
func (l *Listener) accept(ctx context.Context) {
	for {
		conn, err := l.listener.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil { // the QUIC listener was not closed by shutdown
				l.world.log.Error("the listener's socket has failed: nobody can join there any more",
					"addr", l.Addr(), "error", err)
			}
			return
		}
		l.adopt(conn)
	}
}

// adopt attaches an accepted connection to the world.
func (l *Listener) adopt(conn *quic.Conn) {
	l.paths.Prove(conn.RemoteAddr())
	v, _ := conn.Context().Value(visitKey{}).(*visit)
	c, err := l.world.attach(quicconn.NewCarrier(conn, l.shared), true, v)
	if err != nil {
		return // attach has refused the connection and logged it
	}
	l.keep(c, conn)
	// Prove the address again. If the addresses were renewed in the meantime, the
	// renewal did not find the connection and removed its address.
	l.paths.Prove(conn.RemoteAddr())
}

// keep lists conn among the listener's connections until it ends.
func (l *Listener) keep(c *Conn, conn *quic.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = conn
	context.AfterFunc(conn.Context(), func() {
		linger := time.Now().Add(lingerTime(c, conn))
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
		if linger.After(l.linger) {
			l.linger = linger
		}
	})
}

// Dial connects world to the server at addr ("host:port"). It returns when the
// server has welcomed the client. The world need not be driven for that. Each Dial
// makes a new connection, even if one is open: see [World.Connect]. cert.Pinned
// makes a config that trusts one certificate.
//
// If the host has several addresses, Dial tries up to six of them, alternating between
// the families with IPv4 first. It starts the next one after a quarter of a second
// (RFC 8305), or at once if one has failed. Earlier attempts continue. If an address
// refuses, or has a wrong certificate, the silent addresses get 2 s more. If none
// connects, the error is the first one that is more than silence.
//
// If too many other clients are in their handshake with the server, Dial tries again by itself.
// It pauses for up to a second each time, for as long as ctx and Config.HandshakeTimeout allow
// another attempt. Many players may therefore dial at the same moment.
//
// The error is a [*CloseError] if the server still refuses then, if it refuses for another
// reason, such as Config.MaxConns, or if the connection ends before the welcome. Temporary
// then reports whether another attempt may succeed. Under pressure a server may still take
// back the place of a client that is joining. The Conn then ends with ServerBusy.
//
// If nobody answers, Dial fails after half of Config.HandshakeTimeout for each address, or
// when ctx ends. The error is then a net.Error whose Timeout is true, and another attempt may
// succeed. The same holds if this machine has no network at the time. Other errors are
// permanent, such as cert.ErrPinned or the error of an invalid address.
//
// Before Dial returns an error it closes the socket, which may take a second. After
// success, [Conn.Wait] waits until the socket is closed.
func Dial(ctx context.Context, addr string, config *tls.Config, world *World) (*Conn, error) {
	if world == nil {
		return nil, errorf("rpc: Dial %q for a nil *World", addr)
	}
	remotes, host, err := quicconn.Resolve(ctx, addr)
	if err != nil {
		return nil, errorf("rpc: Dial %q: %w", addr, err)
	}
	c, err := inTurn(ctx, world.config.HandshakeTimeout, func() (*Conn, error) {
		socket, err := net.ListenUDP("udp", nil)
		if err != nil {
			return nil, err
		}
		return dial(ctx, socket, remotes, host, config, world, func() { _ = socket.Close() })
	})
	if err != nil {
		return nil, errorf("rpc: Dial %q: %w", addr, err)
	}
	return c, nil
}

// DialPacket is Dial from a socket of the caller. The caller closes the socket after
// [Conn.Wait], or after an error.
//
// quic-go tries to enlarge the socket's receive buffer. If it can't, for instance because
// the socket has no SetReadBuffer, it says so once with package log. The environment
// variable QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true prevents that.
func DialPacket(
	ctx context.Context, socket net.PacketConn, addr net.Addr, config *tls.Config, world *World,
) (*Conn, error) {
	if world == nil {
		return nil, errors.New("rpc: DialPacket for a nil *World")
	}
	c, err := inTurn(ctx, world.config.HandshakeTimeout, func() (*Conn, error) {
		return dial(ctx, socket, []net.Addr{addr}, "", config, world, func() {})
	})
	if err != nil {
		return nil, errorf("rpc: Dial %v: %w", addr, err)
	}
	return c, nil
}

// A client that is refused because of other handshakes tries again after firstPause,
// and then after pauses that double up to maxPause. Each pause is shortened by up to
// a half at random, which spreads the clients. A server admits some hundred clients
// a second, and a refusal costs it one packet.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = time.Second
)

// inTurn calls dial until the server has room for the handshake. It returns the
// refusal if ctx or the limit would end during the next pause.
func inTurn(ctx context.Context, limit time.Duration, dial func() (*Conn, error)) (*Conn, error) {
	until := time.Now().Add(limit)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	var refused error
	for next := firstPause; ; next = min(2*next, maxPause) {
		c, err := dial()
		if err != nil && refused != nil && ctx.Err() == context.DeadlineExceeded {
			return nil, refused // this attempt was too late for an answer
		}
		pause := next - rand.N(next/2)
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

// busy reports whether a server has refused a client because other clients are in
// their handshake. That lasts only for moments.
func busy(err error) bool {
	closed, ok := errors.AsType[*CloseError](err)
	return ok && closed.Remote && closed.Code == ServerBusy
}

// dial connects over a transport of its own. It calls free when the socket is no longer used.
func dial(
	ctx context.Context, socket net.PacketConn, addrs []net.Addr, host string,
	config *tls.Config, world *World, free func(),
) (*Conn, error) {
	if config == nil {
		free()
		return nil, errors.New("a TLS config is needed; see cert.Pinned")
	}
	if err := world.lobby.mayBecomeClient(world.actors.alive.Load()); err != nil {
		free()
		return nil, err
	}
	conn, shared, unshare := world.share(socket, nil)
	carrier, err := quicconn.Dial(ctx, conn, shared, addrs, quicconn.TLS(config, host), world.config.quic(), func() {
		unshare()
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

// quic returns the config of QUIC connections.
func (c *Config) quic() *quic.Config {
	return quicconn.Config(c.IdleTimeout, c.KeepAlive, c.HandshakeTimeout)
}

// share prepares a socket for QUIC and, with Config.Sealed, for sealed packets beside it.
// Packets that the system refuses to send count as lost, and do not end a connection.
//
// guard, if not nil, inspects QUIC packets. The caller must call free when it no
// longer uses the socket.
func (w *World) share(
	socket net.PacketConn, guard sealed.Guard,
) (conn net.PacketConn, shared *sealed.Socket, free func()) {
	// quic-go itself sets the buffers of other sockets.
	if _, ok := socket.(*net.UDPConn); ok && w.config.Sealed {
		if err := udp.AskBuffers(socket, udp.BufferBytes); err != nil {
			w.log.Warn("the socket's buffers are small for sealed packets",
				"addr", socket.LocalAddr(), "error", err)
		}
	}
	free = func() {}
	if w.sockets != nil {
		socket, free = w.sockets.Add(socket)
	}
	if w.config.Sealed {
		shared = sealed.NewSocket(socket, sealed.SocketConfig{Guard: guard})
		return shared.QUIC(), shared, free
	}
	return sealed.NewSocket(socket, sealed.SocketConfig{Guard: guard, NoOffload: true}).QUIC(), nil, free
}
