// Package quicconn makes a QUIC connection a carrier of package link. It holds the settings of quic-go and TLS, dialing, and the key of
// stateless resets. Besides it only rpc imports quic-go, for its Listener and the errors of connections.
package quicconn

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/sealed"
)

const (
	// ALPN is the protocol that both sides of the TLS handshake must name.
	ALPN = "quiver/1"
	// ConnectionIDBytes is the length of connection ids. 17 makes a datagram of the largest size fill its packet exactly; otherwise quic-go
	// batches no sends. At 18 to 20 quic-go's own limit is a few bytes too high.
	ConnectionIDBytes = 17
)

// TLS returns a copy of a user's config with Quiver's ALPN and TLS 1.3. The server must prove the name host, unless the config names one.
func TLS(config *tls.Config, host string) *tls.Config {
	config = config.Clone()
	config.NextProtos = []string{ALPN}
	config.MinVersion = tls.VersionTLS13
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// initialPacket is the size of the first packets in bytes, which every path must take (RFC 9000, section 14). quic-go's default of 1,280
// is too much for a path with IPv6's least MTU: no handshake would complete there.
const initialPacket = 1200

// Config returns quic-go's config for connections with datagrams and without streams.
func Config(idle, keepAlive, handshake time.Duration) *quic.Config {
	return &quic.Config{
		EnableDatagrams:       true,
		InitialPacketSize:     initialPacket,
		MaxIdleTimeout:        idle,
		KeepAlivePeriod:       keepAlive,
		HandshakeIdleTimeout:  handshake / 2, // quic-go gives up at twice this
		MaxIncomingStreams:    -1,
		MaxIncomingUniStreams: -1,
	}
}

// ResetKey derives QUIC's stateless reset key (RFC 9000, section 10.3) from the private key of a server's first certificate. A server
// that restarts with the same certificate can then tell clients of its predecessor that their connections are gone; otherwise they notice
// only after IdleTimeout. Packets no larger than a reset, such as QUIC's empty keep-alives, get no reset. ResetKey returns nil, for no
// resets, if there is no certificate or its key cannot be read.
func ResetKey(config *tls.Config) *quic.StatelessResetKey {
	if len(config.Certificates) == 0 {
		return nil
	}
	secret, err := x509.MarshalPKCS8PrivateKey(config.Certificates[0].PrivateKey)
	if err != nil {
		return nil // the key is in a hardware module
	}
	b, err := hkdf.Key(sha256.New, secret, nil, "quiver stateless reset", len(quic.StatelessResetKey{}))
	if err != nil {
		return nil // cannot happen: the length is valid
	}
	key := quic.StatelessResetKey(b)
	return &key
}

// RefusedError is the error of a dial when the server takes no handshake now, or none from this address.
type RefusedError struct{ cause error }

func (e *RefusedError) Error() string { return e.cause.Error() }

func (e *RefusedError) Unwrap() error { return e.cause }

// Dial connects to addr over a transport of its own on a socket, which shared, when not nil, shares with sealed packets. free is called
// when the socket is no longer used: before Dial returns an error, or once the carrier has ended, for which [Carrier.Wait] waits.
func Dial(ctx context.Context, socket net.PacketConn, shared *sealed.Socket, addr net.Addr, tlsConfig *tls.Config, config *quic.Config, free func()) (*Carrier, error) {
	transport := &quic.Transport{Conn: socket, ConnectionIDLength: ConnectionIDBytes}
	release := func() {
		_ = transport.Close()
		free()
	}
	conn, err := transport.Dial(ctx, addr, tlsConfig, config)
	if err != nil {
		err = dialError(ctx, err, unsent(socket))
		release()
		return nil, err
	}
	carrier := NewCarrier(conn, shared)
	carrier.free = make(chan struct{})
	context.AfterFunc(conn.Context(), func() {
		time.Sleep(LingerTime(conn)) // the transport outlives the connection, to repeat a close that was lost
		release()
		close(carrier.free)
	})
	return carrier, nil
}

// closedHere reports whether this side closed a connection that has ended.
func closedHere(conn *quic.Conn) bool {
	app, ok := errors.AsType[*quic.ApplicationError](context.Cause(conn.Context()))
	return ok && !app.Remote
}

// unsent returns why the system refused the newest packet of QUIC's, if the socket is one of package sealed's; nil if it did not.
func unsent(socket net.PacketConn) error {
	if s, ok := socket.(interface{ Unsent() error }); ok {
		return s.Unsent()
	}
	return nil
}

// dialError returns why no QUIC connection came about.
func dialError(ctx context.Context, err, unsent error) error {
	silent := "no server has answered there"
	if unsent != nil {
		silent = fmt.Sprintf("no packet could leave for it: %v", unsent)
	}
	var refused *quic.TransportError
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", silent, context.Cause(ctx))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, new(*quic.IdleTimeoutError)), errors.As(err, new(*quic.HandshakeTimeoutError)):
		return fmt.Errorf("%s: %w", silent, err)
	case errors.As(err, &refused) && !refused.Remote && errors.Is(unsent, syscall.EMSGSIZE):
		return fmt.Errorf("this machine's interface to it takes no packet of 1,200 bytes, with which QUIC begins: %w", unsent)
	case errors.As(err, &refused) && refused.Remote && refused.ErrorCode == quic.ConnectionRefused:
		return &RefusedError{err}
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%w; to trust one certificate without an authority, whatever its names and dates, use cert.Pinned with its fingerprint", err)
	}
	return err
}

// Resolve looks addr up. Of several addresses it takes the first IPv4 one, as package net does, among those to which this machine has a route: in
// a mobile network of IPv6 alone a server's IPv4 address is out of reach. The error is a timeout where another try may succeed.
func Resolve(ctx context.Context, addr string) (remote *net.UDPAddr, host string, err error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, "", err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, "", unresolved(err)
	}
	if len(ips) == 0 {
		return nil, "", fmt.Errorf("%s has no address (port %d)", host, port)
	}
	best := choose(ips, func(ip net.IPAddr) bool { return routed(ip, port) })
	return &net.UDPAddr{IP: best.IP, Port: port, Zone: best.Zone}, host, nil
}

// unresolved makes a failure of the resolver's that passes a timeout, as one of a machine that has no network now: who dials asks for that.
func unresolved(err error) error {
	failed, ok := errors.AsType[*net.DNSError](err)
	if !ok || !failed.IsTemporary {
		return err
	}
	passing := *failed
	passing.IsTimeout = true
	return &passing
}

// choose returns the first IPv4 address of those with a route, else the first of those, else the first one.
func choose(ips []net.IPAddr, routed func(net.IPAddr) bool) net.IPAddr {
	if len(ips) == 1 {
		return ips[0]
	}
	if with := slices.DeleteFunc(slices.Clone(ips), func(ip net.IPAddr) bool { return !routed(ip) }); len(with) > 0 {
		ips = with
	}
	first := slices.IndexFunc(ips, func(ip net.IPAddr) bool { return ip.IP.To4() != nil })
	return ips[max(first, 0)]
}

// routed reports whether this machine has a route to ip. It sends nothing.
func routed(ip net.IPAddr, port int) bool {
	conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: ip.IP, Port: port, Zone: ip.Zone})
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// LingerTime returns how long a connection that this side has closed should still answer packets, so that the peer gets a lost close
// again: 3 PTO. It is 0 if the connection ended for another reason.
func LingerTime(conn *quic.Conn) time.Duration {
	if conn.Context().Err() != nil && !closedHere(conn) {
		return 0
	}
	const maxAckDelay = 25 * time.Millisecond // RFC 9000, section 18.2
	stats := conn.ConnectionStats()
	pto := stats.SmoothedRTT + max(4*stats.MeanDeviation, time.Millisecond) + maxAckDelay
	return min(3*pto, time.Second)
}
