// Package quicconn adapts a QUIC connection to a carrier of package link. It also dials, and it
// holds the settings of quic-go and TLS and derives QUIC's keys. The only other package that
// imports quic-go is rpc, for its Listener and for the errors of connections.
package quicconn

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// ALPN is the protocol that both sides must offer in the TLS handshake.
	ALPN = "quiver/1"

	// ConnectionIDBytes is the length of connection IDs. With 17 bytes, a datagram of the largest
	// size exactly fills its packet, which quic-go needs to batch sends. With 18 to 20 bytes,
	// quic-go's own limit would also be a few bytes too high.
	ConnectionIDBytes = 17
)

// TLS returns a copy of a user's config with Quiver's ALPN and TLS 1.3. Unless the config has a
// ServerName, the server must prove that its name is host.
func TLS(config *tls.Config, host string) *tls.Config {
	config = config.Clone()
	config.NextProtos = []string{ALPN}
	config.MinVersion = tls.VersionTLS13
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// initialPacket is the size of the first packets in bytes. Every path must carry packets of this
// size (RFC 9000, section 14), while with quic-go's default of 1,280, no handshake would complete
// on a path with IPv6's minimum MTU.
const initialPacket = 1200

// Config returns quic-go's config for connections with datagrams and without streams.
func Config(idle, keepAlive, handshake time.Duration) *quic.Config {
	return &quic.Config{
		EnableDatagrams:       true,
		InitialPacketSize:     initialPacket,
		MaxIdleTimeout:        idle,
		KeepAlivePeriod:       keepAlive,
		HandshakeIdleTimeout:  handshake / 2, // quic-go limits the whole handshake to twice this
		MaxIncomingStreams:    -1,
		MaxIncomingUniStreams: -1,
	}
}

// ResetKey derives QUIC's stateless reset key (RFC 9000, section 10.3) from the private key of a
// server's first certificate. With it, a server that restarts with the same certificate can tell
// its predecessor's clients that their connections are gone, which they would otherwise notice
// only after IdleTimeout. A packet that is no larger than a reset, such as an empty keep-alive,
// isn't answered with one.
//
// The key is nil, which disables resets, if there is no certificate or if its key can't be read.
func ResetKey(config *tls.Config) *quic.StatelessResetKey {
	return (*quic.StatelessResetKey)(deriveKey(config, "quiver stateless reset"))
}

// TokenKey derives the key of QUIC's address validation tokens (RFC 9000, section 8.1) in the
// same way. If it is nil, quic-go chooses a random key for this process.
//
// The key must survive a restart because a client that proves its address after a Retry may show
// its token to another server, one that has replaced the first in the meantime. With another key
// the token would be invalid, and the client would be stuck, because it ignores a second Retry and
// mistakes an answer without one for an attack.
func TokenKey(config *tls.Config) *quic.TokenGeneratorKey {
	return (*quic.TokenGeneratorKey)(deriveKey(config, "quiver address validation token"))
}

// deriveKey derives a key for the given use from the private key of a server's first certificate.
// It is nil if there is no such key, or if we can't read it.
func deriveKey(config *tls.Config, use string) *[32]byte {
	if len(config.Certificates) == 0 {
		return nil
	}
	secret, err := x509.MarshalPKCS8PrivateKey(config.Certificates[0].PrivateKey)
	if err != nil {
		return nil // the key is in a hardware module
	}
	b, err := hkdf.Key(sha256.New, secret, nil, use, 32)
	if err != nil {
		return nil // can't happen, because the length is valid
	}
	return (*[32]byte)(b)
}

// maxLinger limits LingerTime, so that a slow path doesn't delay the end of a process.
const maxLinger = time.Second

// LingerTime returns how long a connection that we closed should go on answering packets, so that
// a lost CONNECTION_CLOSE is sent again. That is 3 PTO (RFC 9000, section 10.2), but at most
// maxLinger. It is 0 if it wasn't we who closed the connection.
func LingerTime(conn *quic.Conn) time.Duration {
	if conn.Context().Err() != nil && !closedLocally(conn) {
		return 0
	}
	const (
		maxAckDelay = 25 * time.Millisecond // RFC 9000, section 18.2
		granularity = time.Millisecond      // RFC 9002, section 6.1.2
	)
	stats := conn.ConnectionStats()
	pto := stats.SmoothedRTT + max(4*stats.MeanDeviation, granularity) + maxAckDelay
	return min(3*pto, maxLinger)
}

// closedLocally reports whether it was our side that closed a connection.
func closedLocally(conn *quic.Conn) bool {
	app, ok := errors.AsType[*quic.ApplicationError](context.Cause(conn.Context()))
	return ok && !app.Remote
}
