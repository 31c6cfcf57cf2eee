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
	"github.com/quivernet/quiver/internal/sealed"
)

// A Listener accepts connections for a world. Its methods are safe for concurrent use.
type Listener struct {
	world     *World
	transport *quic.Transport
	listener  *quic.Listener

	// The socket, and what stands between it and the transport.
	socket  net.PacketConn  // if Listen opened it, for Close to close; nil if it's the caller's
	shared  *sealed.Socket  // for sealed packets; nil without Config.Sealed
	paths   *quicconn.Paths // holds back packets to addresses that no client has proven
	release func()          // called when the socket is no longer used

	// The goroutine in accept.
	accepting sync.WaitGroup
	cancel    context.CancelFunc

	mu     sync.Mutex // guards conns and linger
	conns  map[*Conn]*quic.Conn
	linger time.Time // until then, ended connections still answer, in case their close was lost

	shutdownOnce func() error // calls shutdown, the first time
}

// Listen opens a UDP socket on addr ("host:port", port 0 for any) and accepts
// connections for world. config needs a certificate.
//
// If a server restarts with the same certificate, it resets the connections of its previous
// process (RFC 9000, section 10.3). Clients notice when they next send something, within
// KeepAlive at the latest, rather than after IdleTimeout.
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

// ListenPacket is like Listen, but uses the caller's socket. The caller must close the socket
// after closing the listener.
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
	conn, shared, release := world.share(socket, paths)
	transport := world.newTransport(conn, config, paths)
	listener, err := transport.Listen(quicconn.TLS(config, ""), world.config.quic())
	if err != nil {
		_ = transport.Close()
		release()
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
		release:   release,
		cancel:    cancel,
		conns:     make(map[*Conn]*quic.Conn),
	}
	l.shutdownOnce = sync.OnceValue(l.shutdown)
	paths.Follow(l.remotes)
	l.accepting.Go(func() { l.accept(ctx) })
	return l, nil
}

// hasCertificate reports whether config has a certificate or a function that returns one.
func hasCertificate(config *tls.Config) bool {
	return config != nil &&
		(len(config.Certificates) > 0 || config.GetCertificate != nil || config.GetConfigForClient != nil)
}

// newTransport returns the transport of a listener. The transport reports each client that begins
// a handshake to paths.
func (w *World) newTransport(conn net.PacketConn, config *tls.Config, paths *quicconn.Paths) *quic.Transport {
	return &quic.Transport{
		Conn:                conn,
		ConnectionIDLength:  quicconn.ConnectionIDBytes,
		VerifySourceAddress: func(addr net.Addr) bool { return w.verifySource(addr, paths.MustProve(addr)) },
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

// verifySource is quic.Transport's VerifySourceAddress. quic-go calls it for every first packet
// without a valid token, and sends the client a Retry if the result is true. addr may be forged.
// suspect means that several clients from that address have begun without a proof.
func (w *World) verifySource(addr net.Addr, suspect bool) bool {
	must, open := w.lobby.mustProve(suspect)
	if !must {
		return false
	}
	// quic-go queues only eight Retries for the goroutine that sends them, and drops the rest,
	// so give that goroutine a chance to run.
	runtime.Gosched()
	cause, why := logs.Retry, "as many are in their handshake as Config.RetryAbove allows"
	if suspect {
		cause, why = logs.Household, "several from there have begun without a proof"
	}
	w.logs.Stranger(cause, "new clients must prove their address",
		"addr", addr, "handshakes", open, "Config.RetryAbove", w.config.RetryAbove, "why", why)
	return true
}

// heldBack is called when paths drops a QUIC packet, and logs a warning.
func (w *World) heldBack(to net.Addr) {
	w.logs.Stranger(logs.Unproven, "answers of QUIC dropped: little came from an address that no client has proven",
		"addr", to)
}

// visitKey is the context key for the client's visit, its place among the handshakes, in the
// context of a QUIC connection.
type visitKey struct{}

// onInitial is quic.Transport's ConnContext, which quic-go calls before it creates any state for
// a client. It reserves a place among the handshakes. An error refuses the client.
func (w *World) onInitial(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	v, evicted, limit := w.lobby.arrive(client.RemoteAddr, client.AddrVerified)
	w.evict(evicted)
	if refusal := serverFull(limit); refusal != nil {
		w.logs.Stranger(logs.Refused, "handshake refused",
			"addr", client.RemoteAddr, "code", refusal.Code.String(), "reason", refusal.Reason)
		return nil, refusal
	}
	context.AfterFunc(ctx, func() { w.lobby.leave(v) })
	return context.WithValue(ctx, visitKey{}, v), nil
}

// Addr returns the address of the listener's socket.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close stops accepting, closes the listener's connections with HostClosedConnection, and returns
// when they have ended and the socket is closed. To close connections with a code and reason of
// the game's choice, call [World.Close] first.
//
// Close takes about two seconds at most. It returns at once if there are no connections and none
// was closed a moment ago, or if all of their clients have been silent for a while.
func (l *Listener) Close() error { return l.shutdownOnce() }

// shutdown closes all connections, and then the socket.
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

	// Peers whose close was lost repeat their packets. Answer for as long as they may do so.
	time.Sleep(linger)
	err = errors.Join(err, l.transport.Close())
	l.release()
	l.world.lobby.removeListener()
	if l.socket != nil {
		err = errors.Join(err, l.socket.Close())
	}
	return err
}

// lingerTime returns how long a connection should go on answering packets after its close. It
// returns 0 if the peer has already been silent for that long, since it then has nothing to send.
func lingerTime(c *Conn, conn *quic.Conn) time.Duration {
	linger := quicconn.LingerTime(conn)
	if c.link.Silence() >= linger {
		return 0
	}
	return linger
}

// snapshot returns the connections, and the time for which ended connections must still answer.
func (l *Listener) snapshot() (map[*Conn]*quic.Conn, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.conns), time.Until(l.linger)
}

// remotes yields the id and the remote address of each connection.
func (l *Listener) remotes(yield func(conn uint64, at net.Addr) bool) {
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
			if ctx.Err() == nil { // it wasn't shutdown
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
	c := newServerConn(l.world, quicconn.NewCarrier(conn, l.shared))
	if err := l.world.attach(c, v); err != nil {
		return // attach has refused the connection and logged it
	}
	l.track(c, conn)
	// Prove the address once more. If paths has rebuilt its set of addresses since the first
	// call, it has lost this address, because the connection wasn't listed yet.
	l.paths.Prove(conn.RemoteAddr())
}

// track lists a connection until it ends.
func (l *Listener) track(c *Conn, conn *quic.Conn) {
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
