package rpc

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/logs"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/sealed"
)

const (
	// alpn is the protocol that both sides of the TLS handshake must name.
	alpn = "quiver/1"
	// connectionIDBytes makes a datagram of the largest size fill its packet exactly, without which quic-go batches
	// no sends. At 18 to 20 quic-go's own limit is a few bytes too high.
	connectionIDBytes = 17
)

// Listener accepts connections for a world.
type Listener struct {
	world     *World
	transport *quic.Transport
	listener  *quic.Listener
	socket    net.PacketConn // to close; nil when it is the caller's
	shared    *sealed.Socket // nil without Config.Sealed
	unshare   func()
	accepting sync.WaitGroup
	cancel    context.CancelFunc

	mu    sync.Mutex
	conns map[*Conn]*quic.Conn
	close sync.Once
}

// Listen opens a UDP socket on addr ("host:port", port 0 for any) and accepts connections for world. The TLS config
// needs a certificate. Who is started anew with the same one resets the connections of the process before: their clients notice as soon as
// they send something, and not after IdleTimeout.
func Listen(addr string, config *tls.Config, world *World) (*Listener, error) {
	local, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("rpc: Listen on %q: %w", addr, err)
	}
	socket, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, fmt.Errorf("rpc: Listen on %q: %w", addr, err)
	}
	l, err := ListenPacket(socket, config, world)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	l.socket = socket
	return l, nil
}

// ListenPacket is Listen on a socket of the caller, who closes it after the listener.
func ListenPacket(socket net.PacketConn, config *tls.Config, world *World) (*Listener, error) {
	if err := world.becomeServer(); err != nil {
		return nil, err
	}
	if config == nil {
		return nil, errors.New("rpc: Listen needs a TLS config with a certificate; see cert.Development")
	}
	conn, shared, unshare := world.share(socket)
	transport := &quic.Transport{
		Conn:                conn,
		ConnectionIDLength:  connectionIDBytes,
		VerifySourceAddress: world.mustProve,
		ConnContext:         world.onInitial,
		StatelessResetKey:   resetKey(config),
	}
	listener, err := transport.Listen(tlsConfig(config, ""), world.config.quic())
	if err != nil {
		_ = transport.Close()
		unshare()
		return nil, fmt.Errorf("rpc: Listen on %v: %w", socket.LocalAddr(), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &Listener{world: world, shared: shared, unshare: unshare, transport: transport, listener: listener, cancel: cancel, conns: make(map[*Conn]*quic.Conn)}
	l.accepting.Go(func() { l.accept(ctx) })
	return l, nil
}

// resetKey makes QUIC's stateless reset key (RFC 9000, 10.3) of the private key of a server's first certificate: a server that is started
// anew with the same certificate then tells the clients of the one before that their connections are gone, which they would otherwise take
// IdleTimeout to notice. What is no larger than a reset gets none, as QUIC's empty keep-alives. The key is nil, for no resets, where there is
// no certificate, or its key is not here to be read.
func resetKey(config *tls.Config) *quic.StatelessResetKey {
	if len(config.Certificates) == 0 {
		return nil
	}
	secret, err := x509.MarshalPKCS8PrivateKey(config.Certificates[0].PrivateKey)
	if err != nil {
		return nil // in a hardware module
	}
	b, err := hkdf.Key(sha256.New, secret, nil, "quiver stateless reset", len(quic.StatelessResetKey{}))
	if err != nil {
		return nil // never: the length is allowed
	}
	key := quic.StatelessResetKey(b)
	return &key
}

// mustProve reports whether a client whose first packet came from addr gets a Retry. quic-go asks it about every first packet
// without a valid token; addr may be forged.
func (w *World) mustProve(addr net.Addr) bool {
	w.mu.Lock()
	must, open := w.door.MustProve(time.Now())
	w.mu.Unlock()
	if must {
		w.logs.Warn(logs.Retry, "new clients must prove their address", "addr", addr, "handshakes", open, "Config.RetryAbove", w.config.retryAbove())
	}
	return must
}

// visitKey finds the visit in the context of a QUIC connection.
type visitKey struct{}

// onInitial gives a client a place, before quic-go makes any state for it. It implements quic.Transport.ConnContext; an
// error refuses the client.
func (w *World) onInitial(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	w.mu.Lock()
	v, out, none := w.door.Arrive(door.AddressOf(client.RemoteAddr), client.AddrVerified, time.Now())
	w.mu.Unlock()
	w.evict(out)
	if full := serverFull(none); full != nil {
		w.logs.Warn(logs.Refused, "handshake refused", "addr", client.RemoteAddr, "code", full.Code.String(), "reason", full.Reason)
		return nil, full
	}
	context.AfterFunc(ctx, func() { w.leave(v) })
	return context.WithValue(ctx, visitKey{}, v), nil
}

// becomeServer settles that the world is a server's.
func (w *World) becomeServer() error {
	w.freeze()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client.Load() {
		return fmt.Errorf("rpc: Listen on a client's world: %w", ErrWrongRole)
	}
	if w.closed != nil {
		return fmt.Errorf("rpc: Listen on a closed world: %w", ErrClosed)
	}
	w.listeners++
	return nil
}

// Addr returns the address that the listener's socket has.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close stops accepting, closes the listener's connections with HostClosedConnection, and returns when that is done
// and the socket is free: at once without connections, else after at most about two seconds.
func (l *Listener) Close() error {
	var err error
	l.close.Do(func() { err = l.shutdown() })
	return err
}

func (l *Listener) shutdown() error {
	l.cancel()
	err := l.listener.Close()
	l.accepting.Wait()
	linger := time.Duration(0)
	conns := l.snapshot()
	for c, conn := range conns {
		linger = max(linger, lingerTime(conn))
		c.Close(HostClosedConnection, "the server closed its listener")
	}
	for c := range conns {
		<-c.Done()
	}
	time.Sleep(linger)
	err = errors.Join(err, l.transport.Close())
	l.unshare()
	if l.socket != nil {
		err = errors.Join(err, l.socket.Close())
	}
	return err
}

func (l *Listener) snapshot() map[*Conn]*quic.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.conns)
}

func (l *Listener) accept(ctx context.Context) {
	for {
		conn, err := l.listener.Accept(ctx)
		if err != nil {
			return // closed: quic-go has no other error
		}
		l.adopt(conn)
	}
}

// adopt gives an accepted connection to the world.
func (l *Listener) adopt(conn *quic.Conn) {
	v, _ := conn.Context().Value(visitKey{}).(*visit)
	c, err := l.world.attach(newQUICCarrier(conn, l.shared), true, v)
	if err != nil {
		return // refused and logged
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = conn
	context.AfterFunc(conn.Context(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
	})
}

// tlsConfig completes the user's config.
func tlsConfig(config *tls.Config, host string) *tls.Config {
	config = config.Clone()
	config.NextProtos = []string{alpn}
	config.MinVersion = tls.VersionTLS13
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// quic returns the config of QUIC connections: datagrams and no streams.
func (c *Config) quic() *quic.Config {
	return &quic.Config{
		EnableDatagrams:       true,
		MaxIdleTimeout:        c.idleTimeout(),
		KeepAlivePeriod:       c.keepAlive(),
		HandshakeIdleTimeout:  c.handshakeTimeout() / 2, // quic-go gives up at twice this
		MaxIncomingStreams:    -1,
		MaxIncomingUniStreams: -1,
	}
}
