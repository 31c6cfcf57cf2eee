package sealed

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// host is a socket with QUIC on it.
type host struct {
	conn      net.PacketConn
	socket    *Socket
	transport *quic.Transport
}

func newHost(t testing.TB, conn net.PacketConn, c SocketConfig) *host {
	h := &host{conn: conn, socket: NewSocket(conn, c)}
	h.transport = &quic.Transport{Conn: h.socket.QUIC(), ConnectionIDLength: 17}
	t.Cleanup(func() {
		_ = h.transport.Close()
		_ = h.conn.Close()
	})
	return h
}

func newLoopback(t testing.TB, c SocketConfig) *host {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	return newHost(t, conn, c)
}

func tlsConfigs(t testing.TB) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"raw"}, MinVersion: tls.VersionTLS13},
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"raw"}, MinVersion: tls.VersionTLS13}
}

// dial connects two hosts by QUIC.
func dial(t testing.TB, near, far *host) (client, server *quic.Conn) {
	serverTLS, clientTLS := tlsConfigs(t)
	listener, err := far.transport.Listen(serverTLS, &quic.Config{EnableDatagrams: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	client, err = near.transport.Dial(t.Context(), far.conn.LocalAddr(), clientTLS, &quic.Config{EnableDatagrams: true})
	require.NoError(t, err)
	server, err = listener.Accept(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = client.CloseWithError(0, "")
		_ = server.CloseWithError(0, "")
	})
	return client, server
}

// carry puts a carrier beside a QUIC connection.
func carry(t testing.TB, h *host, conn *quic.Conn, isClient bool, source Source, configure func(*Config)) *Carrier {
	state := conn.ConnectionState().TLS
	c := Config{
		SessionConfig: SessionConfig{Exporter: state.ExportKeyingMaterial, Instance: 1, Client: isClient, Source: source, RTT: conn.ConnectionStats().SmoothedRTT},
		Addrs:         func() (net.Addr, net.Addr) { return conn.RemoteAddr(), conn.LocalAddr() },
		PathLimit:     func() int { return 1232 },
	}
	if configure != nil {
		configure(&c)
	}
	carrier, err := NewCarrier(h.socket, c)
	require.NoError(t, err)
	t.Cleanup(func() {
		carrier.Close()
		<-carrier.Done()
	})
	return carrier
}

// stream moves bytes over a QUIC stream and returns an error when they arrive changed.
func stream(ctx context.Context, from, to *quic.Conn, size int) error {
	data := bytes.Repeat([]byte("quiver over QUIC"), size/16)
	sent := make(chan error, 1)
	go func() {
		s, err := from.OpenUniStreamSync(ctx)
		if err == nil {
			_, err = s.Write(data)
			_ = s.Close()
		}
		sent <- err
	}()
	s, err := to.AcceptUniStream(ctx)
	if err != nil {
		return err
	}
	hash := sha256.New()
	if _, err = io.Copy(hash, s); err != nil {
		return err
	}
	if sha256.Sum256(data) != [32]byte(hash.Sum(nil)) {
		return io.ErrUnexpectedEOF
	}
	return <-sent
}

// deliver waits until all pieces of a were acked.
func deliver(t testing.TB, c *Carrier, p *pieces) {
	for {
		c.Lock()
		done, state := p.delivered(), c.Session().State()
		c.Unlock()
		if done {
			return
		}
		require.NotEqual(t, Closed, state, "%v", c.Err())
		time.Sleep(ms)
	}
}

// exchange moves pieces both ways beside QUIC streams both ways.
func exchange(t *testing.T, near, far *host, streamBytes, count int) (*Carrier, *Carrier) {
	client, server := dial(t, near, far)
	const size = 1100
	a, b := newPieces(size, count, count), newPieces(size, count, count)
	ca, cb := carry(t, near, client, true, a, nil), carry(t, far, server, false, b, nil)
	ca.Start()
	cb.Start()
	var streams sync.WaitGroup
	errs := make(chan error, 2)
	if streamBytes > 0 {
		streams.Go(func() { errs <- stream(t.Context(), client, server, streamBytes) })
		streams.Go(func() { errs <- stream(t.Context(), server, client, streamBytes) })
	}
	deliver(t, ca, a)
	deliver(t, cb, b)
	streams.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	ca.Lock()
	defer ca.Unlock()
	cb.Lock()
	defer cb.Unlock()
	for _, p := range []*pieces{a, b} {
		require.Len(t, p.got, count)
		require.Zero(t, p.bad)
		require.Empty(t, p.faults)
	}
	return ca, cb
}

func TestLoopback(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  SocketConfig
	}{{"offload", SocketConfig{}}, {"plain", SocketConfig{NoOffload: true}}} {
		t.Run(c.name, func(t *testing.T) {
			near, far := newLoopback(t, c.cfg), newLoopback(t, c.cfg)
			ca, cb := exchange(t, near, far, 8<<20, 5000)
			sys := near.socket.sys
			t.Logf("gso %v: %+v\n%+v\n%d kept", sys.GSO.Load(), ca.Stats(), cb.Stats(), far.socket.routed.Load())
			require.Zero(t, ca.Stats().Dropped())
			require.Zero(t, far.socket.unknown.Load())
		})
	}
}

// The same over a socket without a descriptor, in virtual time.
func TestSimulatedSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := netsim.Config{Delay: 25 * ms, Rate: 50e6, Loss: 0.01, Seed: testkit.Seed(t)}
		a, b := netsim.Pipe(path, path)
		near, far := newHost(t, a, SocketConfig{}), newHost(t, b, SocketConfig{})
		begin := time.Now()
		ca, cb := exchange(t, near, far, 256<<10, 2000)
		t.Logf("%v: %+v\n%+v", time.Since(begin), ca.Stats(), cb.Stats())
	})
}
