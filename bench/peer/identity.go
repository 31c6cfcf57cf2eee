package peer

import (
	"crypto/tls"
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc/cert"
)

// Certificate is the server's, of all peers with TLS. The first call must not be in a bubble.
var Certificate = sync.OnceValue(func() tls.Certificate {
	c, err := cert.Development("localhost")
	if err != nil {
		panic(err) // there is no randomness
	}
	return c
})

// ServerTLS presents Certificate.
func ServerTLS(protocols ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{Certificate()}, NextProtos: protocols, MinVersion: tls.VersionTLS13}
}

// ClientTLS trusts Certificate, also in a bubble, whose time is long past.
func ClientTLS(protocols ...string) *tls.Config {
	c := Certificate()
	config, err := cert.Pinned(cert.Fingerprint(c))
	if err != nil {
		panic(err)
	}
	config.NextProtos = protocols
	config.Time = func() time.Time { return c.Leaf.NotBefore.Add(time.Hour) }
	return config
}
