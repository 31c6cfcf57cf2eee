// Package quicconn provides a QUIC connection as a carrier of package link. It holds the
// settings of quic-go and TLS, dialing, and the key of stateless resets. The only other
// package that imports quic-go is rpc, for its Listener and the errors of connections.
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
	// ALPN is the protocol that both sides of the TLS handshake must offer.
	ALPN = "quiver/1"
	// ConnectionIDBytes is the length of connection IDs. With 17, a datagram of the largest size
	// fills its packet exactly. With any other length, quic-go does not batch sends. With 18 to
	// 20, quic-go's own limit is also a few bytes too high.
	ConnectionIDBytes = 17
)

// TLS returns a copy of a user's config with Quiver's ALPN and TLS 1.3. The server must prove
// the name host unless the config has a ServerName.
func TLS(config *tls.Config, host string) *tls.Config {
	config = config.Clone()
	config.NextProtos = []string{ALPN}
	config.MinVersion = tls.VersionTLS13
	if config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// initialPacket is the size in bytes of the first packets, which every path must take (RFC
// 9000, section 14). quic-go's default of 1,280 is too large for a path with IPv6's minimum
// MTU: no handshake would complete there.
const initialPacket = 1200

// Config returns quic-go's config for connections with datagrams and without streams.
func Config(idle, keepAlive, handshake time.Duration) *quic.Config {
	return &quic.Config{
		EnableDatagrams:       true,
		InitialPacketSize:     initialPacket,
		MaxIdleTimeout:        idle,
		KeepAlivePeriod:       keepAlive,
		HandshakeIdleTimeout:  handshake / 2, // quic-go's limit is twice this
		MaxIncomingStreams:    -1,
		MaxIncomingUniStreams: -1,
	}
}

// ResetKey derives QUIC's stateless reset key (RFC 9000, section 10.3) from the private key
// of a server's first certificate. It returns nil, which disables resets, if there is no
// certificate or its key cannot be read.
//
// So a server that restarts with the same certificate can tell its predecessor's clients that
// their connections are gone. Otherwise they notice only after IdleTimeout. Packets no larger
// than a reset, such as QUIC's empty keep-alives, get no reset.
func ResetKey(config *tls.Config) *quic.StatelessResetKey {
	return (*quic.StatelessResetKey)(lastingKey(config, "quiver stateless reset"))
}

// TokenKey derives the key of QUIC's address validation tokens (RFC 9000, section 8.1) in the
// same way. It returns nil, for a key of this process, if ResetKey returns nil.
//
// A client that had to prove its address after a Retry may show its token to a server that
// has meanwhile replaced the first one. With another key, the token would be invalid. The
// client ignores a second Retry and takes an answer without one for an attack.
func TokenKey(config *tls.Config) *quic.TokenGeneratorKey {
	return (*quic.TokenGeneratorKey)(lastingKey(config, "quiver address validation token"))
}

// lastingKey derives a key for one use from the private key of a server's first certificate.
// It returns nil if there is no such key or it cannot be read.
func lastingKey(config *tls.Config, use string) *[32]byte {
	if len(config.Certificates) == 0 {
		return nil
	}
	secret, err := x509.MarshalPKCS8PrivateKey(config.Certificates[0].PrivateKey)
	if err != nil {
		return nil // the key is in a hardware module
	}
	b, err := hkdf.Key(sha256.New, secret, nil, use, 32)
	if err != nil {
		return nil // cannot happen, because the length is valid
	}
	return (*[32]byte)(b)
}

// LingerTime returns how long a connection closed by this side should still answer packets,
// so that the peer receives a lost close again. It is 3 PTO, but at most a second. It is 0 if
// the connection ended for another reason.
func LingerTime(conn *quic.Conn) time.Duration {
	if conn.Context().Err() != nil && !closedHere(conn) {
		return 0
	}
	const maxAckDelay = 25 * time.Millisecond // RFC 9000, section 18.2
	stats := conn.ConnectionStats()
	pto := stats.SmoothedRTT + max(4*stats.MeanDeviation, time.Millisecond) + maxAckDelay
	return min(3*pto, time.Second)
}

// closedHere reports whether this side closed a connection that has ended.
func closedHere(conn *quic.Conn) bool {
	app, ok := errors.AsType[*quic.ApplicationError](context.Cause(conn.Context()))
	return ok && !app.Remote
}
