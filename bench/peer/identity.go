package peer

import (
	"crypto/tls"
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc/cert"
)

// Certificate returns the certificate of the servers of all peers with TLS. The first call
// makes it, with random bytes of the system, and so must be made outside a synctest bubble.
var Certificate = sync.OnceValue(func() tls.Certificate {
	c, err := cert.Development("localhost")
	if err != nil {
		panic(err) // the system has no random bytes
	}
	return c
})

// ServerTLS returns a config that presents Certificate.
func ServerTLS(protocols ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{Certificate()}, NextProtos: protocols, MinVersion: tls.VersionTLS13}
}

// ClientTLS returns a config that trusts only Certificate, even in a synctest
// bubble, whose clock begins in the year 2000.
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
