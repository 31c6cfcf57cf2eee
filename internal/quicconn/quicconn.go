// Package quicconn makes a QUIC connection a carrier of package link, and has what this takes of quic-go and of TLS: configs, dialing, the
// key of stateless resets. Beside it only rpc imports quic-go, for its Listener and the errors of connections.
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
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/sealed"
)

const (
	// ALPN is the protocol that both sides of the TLS handshake must name.
	ALPN = "quiver/1"
	// ConnectionIDBytes makes a datagram of the largest size fill its packet exactly, without which quic-go batches
	// no sends. At 18 to 20 quic-go's own limit is a few bytes too high.
	ConnectionIDBytes = 17
)

// TLS completes a user's config; host is the name that the server must prove, unless the config has one.
func TLS(config *tls.Config, host string) *tls.Config {
	config = config.Clone()
	config.NextProtos = []string{ALPN}
	config.MinVersion = tls.VersionTLS13
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// initialPacket is the size of the first packets, what RFC 9000 (14) wants of each path: quic-go's 1,280 B are too much for one whose MTU is
// IPv6's least, and no handshake would end there.
const initialPacket = 1200

// Config returns the config of connections with datagrams and no streams.
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

// ResetKey makes QUIC's stateless reset key (RFC 9000, 10.3) of the private key of a server's first certificate: a server that is started
// anew with the same certificate then tells the clients of the one before that their connections are gone, which they would otherwise take
// IdleTimeout to notice. What is no larger than a reset gets none, as QUIC's empty keep-alives. The key is nil, for no resets, where there is
// no certificate, or its key is not here to be read.
func ResetKey(config *tls.Config) *quic.StatelessResetKey {
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

// RefusedError says that the server takes no handshake now, or none from this address.
type RefusedError struct{ cause error }

func (e *RefusedError) Error() string { return e.cause.Error() }

func (e *RefusedError) Unwrap() error { return e.cause }

// Dial connects to addr over a transport of its own on a socket, which shared, when not nil, shares with sealed packets. free is called
// when the socket is no longer used: before Dial returns an error, or once the carrier has ended, for which [Carrier.Wait] waits.
func Dial(ctx context.Context, socket net.PacketConn, shared *sealed.Socket, addr net.Addr, tls *tls.Config, config *quic.Config, free func()) (*Carrier, error) {
	transport := &quic.Transport{Conn: socket, ConnectionIDLength: ConnectionIDBytes}
	release := func() {
		_ = transport.Close()
		free()
	}
	conn, err := transport.Dial(ctx, addr, tls, config)
	if err != nil {
		release()
		return nil, dialError(ctx, err)
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

// closedHere reports whether a connection that has ended did so because this side closed it.
func closedHere(conn *quic.Conn) bool {
	var app *quic.ApplicationError
	return errors.As(context.Cause(conn.Context()), &app) && !app.Remote
}

// dialError says why no QUIC connection came about.
func dialError(ctx context.Context, err error) error {
	var silent *quic.IdleTimeoutError
	var slow *quic.HandshakeTimeoutError
	var refused *quic.TransportError
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("no server has answered there: %w", context.Cause(ctx))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &silent), errors.As(err, &slow):
		return fmt.Errorf("no server has answered there: %w", err)
	case errors.As(err, &refused) && refused.Remote && refused.ErrorCode == quic.ConnectionRefused:
		return &RefusedError{err}
	}
	return err
}

// Resolve looks addr up; of several addresses it takes the first of version 4, as package net does.
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
		return nil, "", err
	}
	if len(ips) == 0 {
		return nil, "", fmt.Errorf("%s has no address (port %d)", host, port)
	}
	best := ips[0]
	for _, ip := range ips {
		if ip.IP.To4() != nil {
			best = ip
			break
		}
	}
	return &net.UDPAddr{IP: best.IP, Port: port, Zone: best.Zone}, host, nil
}

// LingerTime is how long a connection that this side closes should still answer, so that a lost close is repeated: 3 PTO. It is 0 when
// the connection has ended otherwise.
func LingerTime(conn *quic.Conn) time.Duration {
	if conn.Context().Err() != nil && !closedHere(conn) {
		return 0
	}
	const maxAckDelay = 25 * time.Millisecond // RFC 9000, section 18.2
	stats := conn.ConnectionStats()
	pto := stats.SmoothedRTT + max(4*stats.MeanDeviation, time.Millisecond) + maxAckDelay
	return min(3*pto, time.Second)
}
