package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/quicconn"
)

// A Listener accepts connections for a world over a UDP socket. Its methods are safe for concurrent
// use.
type Listener struct {
	world     *World
	transport *quic.Transport
	listener  *quic.Listener

	socket    sharedSocket
	ownSocket net.PacketConn  // the socket that Listen opened; nil if it's the caller's
	paths     *quicconn.Paths // limits packets to unvalidated addresses (RFC 9000, section 8)

	// The goroutine that runs accept.
	accepting sync.WaitGroup
	cancel    context.CancelFunc

	mu          sync.Mutex // guards the fields below
	conns       map[*Conn]*quic.Conn
	lingerUntil time.Time // ended connections keep answering until then; see lingerTime

	closeOnce func() error // calls shutdown once
}

// Listen opens a UDP socket on addr ("host:port", port 0 for any) and accepts connections for
// world. config must have a certificate, and Listen sets its ALPN. All classes must be bound before
// the first Listen. A world may have several listeners. Listen fails with [ErrWrongRole] if the
// world is a client, and with [ErrClosed] if it is closed.
//
// If a server restarts with the same certificate, it resets the connections from its previous
// process (RFC 9000, section 10.3). Clients notice when they next send something, which is within
// KeepAlive. Otherwise, they would only notice after IdleTimeout.
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
	l.ownSocket = socket
	return l, nil
}

// ListenPacket is like Listen, but uses the caller's socket, which the caller must close after
// closing the listener.
func ListenPacket(socket net.PacketConn, config *tls.Config, world *World) (*Listener, error) {
	if world == nil {
		return nil, errors.New("rpc: cannot listen for a nil *World")
	}
	if socket == nil {
		return nil, errors.New("rpc: cannot listen on a nil socket")
	}
	if !hasCertificate(config) {
		return nil, errors.New("rpc: a listener requires a TLS config with a certificate: see cert.Development")
	}
	world.freeze()
	if err := world.lobby.addListener(); err != nil {
		return nil, err
	}
	paths := quicconn.NewPaths(world.logUnvalidated)
	shared := world.shareSocket(socket, paths)
	l := &Listener{
		world:     world,
		transport: world.newTransport(shared.quic, config, paths),
		socket:    shared,
		paths:     paths,
		conns:     make(map[*Conn]*quic.Conn),
	}
	var err error
	l.listener, err = l.transport.Listen(quicconn.TLS(config, ""), world.config.quic())
	if err != nil {
		_ = l.release()
		return nil, errorf("rpc: listen on %v: %w", socket.LocalAddr(), err)
	}
	l.closeOnce = sync.OnceValue(l.shutdown)
	paths.Follow(l.remotes)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.accepting.Go(func() { l.accept(ctx) })
	return l, nil
}

// release closes the transport and releases the socket, closing it if Listen opened it.
func (l *Listener) release() error {
	err := l.transport.Close()
	l.socket.release()
	l.world.lobby.removeListener()
	if l.ownSocket != nil {
		err = errors.Join(err, l.ownSocket.Close())
	}
	return err
}

// hasCertificate reports whether config has a certificate or a function that returns one.
func hasCertificate(config *tls.Config) bool {
	return config != nil &&
		(len(config.Certificates) > 0 || config.GetCertificate != nil || config.GetConfigForClient != nil)
}

// newTransport returns the QUIC transport of a listener. The transport tells paths about each
// client that begins a handshake.
func (w *World) newTransport(conn net.PacketConn, config *tls.Config, paths *quicconn.Paths) *quic.Transport {
	return &quic.Transport{
		Conn:                conn,
		ConnectionIDLength:  quicconn.ConnectionIDBytes,
		VerifySourceAddress: func(addr net.Addr) bool { return w.verifySourceAddress(addr, paths.MustProve(addr)) },
		ConnContext: func(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
			ctx, err := w.connContext(ctx, client)
			if err == nil {
				paths.Begin(ctx, client.RemoteAddr, client.AddrVerified)
			}
			return ctx, err
		},
		StatelessResetKey: quicconn.ResetKey(config),
		TokenGeneratorKey: quicconn.TokenKey(config),
	}
}

// verifySourceAddress implements quic.Transport.VerifySourceAddress. quic-go calls it for every
// first packet without a valid token. If the result is true, quic-go sends the client a Retry to
// validate addr, which may be forged. crowded is set if several clients at that address began a
// handshake while it was unvalidated.
func (w *World) verifySourceAddress(addr net.Addr, crowded bool) bool {
	must, open := w.lobby.decideRetry(crowded)
	if !must {
		return false
	}
	// quic-go queues only eight Retries for the goroutine that sends them, and drops the rest,
	// so give that goroutine a chance to run.
	runtime.Gosched()
	event, reason := logs.Retry, "handshakes have reached Config.RetryAbove"
	if crowded {
		event, reason = logs.SharedAddress, "several unvalidated handshakes from this address"
	}
	w.logs.LogUnjoined(event, "address validation required for new clients",
		"addr", addr, "handshakes", open, "Config.RetryAbove", w.config.RetryAbove, "reason", reason)
	return true
}

// logUnvalidated logs that paths dropped a QUIC packet.
func (w *World) logUnvalidated(to net.Addr) {
	w.logs.LogUnjoined(logs.Unverified, "QUIC packets dropped: address not validated", "addr", to)
}

// slotKey is the context key for the client's handshakeSlot in the context of a QUIC connection.
type slotKey struct{}

// connContext implements quic.Transport.ConnContext, which quic-go calls before it creates any
// state for a client. connContext reserves a handshake slot, or returns an error to refuse the
// client.
func (w *World) connContext(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	slot, evicted, full := w.lobby.arrive(client.RemoteAddr, client.AddrVerified)
	w.evict(evicted)
	if refused := serverFull(full); refused != nil {
		w.logs.LogUnjoined(logs.Refused, "handshake refused",
			"addr", client.RemoteAddr, "code", refused.Code.String(), "reason", refused.Reason)
		return nil, refused
	}
	context.AfterFunc(ctx, func() { w.lobby.leave(slot) })
	return context.WithValue(ctx, slotKey{}, slot), nil
}

// Addr returns the address of the listener's socket.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close stops accepting and closes the listener's connections with HostClosedConnection. It returns
// when they have ended and the listener no longer uses the socket, which Close also closes if
// Listen opened it. To choose the code and reason for the connections, call [World.Close] first.
//
// In case the close is lost, closed connections keep answering their clients for three probe
// timeouts (RFC 9000, section 10.2), but no more than a second. Close waits for that, so it takes
// up to about two seconds. It returns at once if there are no connections and none was closed that
// recently, or if all clients have been silent for that long.
func (l *Listener) Close() error { return l.closeOnce() }

// shutdown closes all connections and then releases the socket. It waits for accept first, so that
// snapshot finds every connection, and releases the socket last, because connections keep answering
// for their linger time.
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
	return errors.Join(err, l.release())
}

// lingerTime returns how long a closed connection should keep answering the peer's packets. A peer
// that hasn't received our close keeps sending until we answer. lingerTime returns 0 if the peer
// has already been silent for as long, because it won't send anything that needs an answer.
func lingerTime(c *Conn, conn *quic.Conn) time.Duration {
	linger := quicconn.LingerTime(conn)
	if c.link.Silence() >= linger {
		return 0
	}
	return linger
}

// snapshot returns the connections, and how long ended connections must keep answering.
func (l *Listener) snapshot() (map[*Conn]*quic.Conn, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.conns), time.Until(l.lingerUntil)
}

// remotes yields the id and the remote address of each connection.
func (l *Listener) remotes(yield func(id uint64, remote net.Addr) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, conn := range l.conns {
		if !yield(c.id, conn.RemoteAddr()) {
			return
		}
	}
}

// accept attaches each new connection to the world. It runs on its own goroutine until shutdown
// closes the QUIC listener.
func (l *Listener) accept(ctx context.Context) {
	for {
		conn, err := l.listener.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil { // not canceled by shutdown
				l.world.log.Error("listener socket failed; no longer accepting connections",
					"addr", l.Addr(), "error", err)
			}
			return
		}
		l.adopt(conn)
	}
}

// adopt attaches an accepted connection to the world.
func (l *Listener) adopt(conn *quic.Conn) {
	// The handshake has validated the address. Tell paths before attach, which starts sending.
	l.paths.Prove(conn.RemoteAddr())
	slot, _ := conn.Context().Value(slotKey{}).(*handshakeSlot)
	c := newServerConn(l.world, quicconn.NewCarrier(conn, l.socket.sealed))
	if err := l.world.attach(c, slot); err != nil {
		return // attach logged the refusal
	}
	l.track(c, conn)
	// Tell paths again, because it may have rebuilt its set of addresses since the first call. The
	// connection wasn't listed then, so the new set lacks its address.
	l.paths.Prove(conn.RemoteAddr())
}

// track keeps a connection in conns until it ends.
func (l *Listener) track(c *Conn, conn *quic.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = conn
	context.AfterFunc(conn.Context(), func() {
		until := time.Now().Add(lingerTime(c, conn))
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
		if until.After(l.lingerUntil) {
			l.lingerUntil = until
		}
	})
}
