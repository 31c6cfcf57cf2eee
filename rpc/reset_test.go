package rpc

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc/cert"
)

// moved is a client's socket before a server that is restarted elsewhere, behind the same address.
type moved struct {
	net.PacketConn
	from net.Addr // as the client knows the server
	to   atomic.Pointer[net.UDPAddr]

	small atomic.Int32 // packets in a row that are no probes of the path's MTU
}

func (m *moved) WriteTo(b []byte, _ net.Addr) (int, error) {
	if m.small.Add(1); len(b) > 1000 {
		m.small.Store(0)
	}
	return m.PacketConn.WriteTo(b, m.to.Load())
}

func (m *moved) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, from, err := m.PacketConn.ReadFrom(b)
		if err != nil || from.String() == m.to.Load().String() {
			return n, m.from, err
		}
	}
}

// TestStatelessReset: if a server restarts with its certificate, its clients need
// not wait for IdleTimeout, whichever carrier is in use, even if they have nothing
// to send: QUIC's own keep-alive is too small for a reset, and Quiver's is not.
func TestStatelessReset(t *testing.T) {
	for name, isSealed := range map[string]bool{"sealed": true, "quic": false} {
		t.Run(name, func(t *testing.T) {
			certificate, err := cert.Development("localhost")
			require.NoError(t, err)
			config := Config{Sealed: isSealed, HandshakeTimeout: time.Minute}
			first, second := serve(t, certificate, config), serve(t, certificate, config)
			socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			require.NoError(t, err)
			defer socket.Close()
			way := &moved{PacketConn: socket, from: first}
			way.to.Store(first)
			world, err := NewWorld(Config{Sealed: isSealed, IdleTimeout: time.Hour, KeepAlive: 50 * time.Millisecond})
			require.NoError(t, err)
			go func() { _ = world.Run(t.Context()) }()
			pin, err := cert.Pinned(cert.Fingerprint(certificate))
			require.NoError(t, err)
			conn, err := DialPacket(t.Context(), way, first, pin, world)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return conn.Sealed() == isSealed }, 20*time.Second, time.Millisecond)
			require.Eventually(t, func() bool { return way.small.Load() > 10 }, 20*time.Second, time.Millisecond, "it has nothing to say")
			way.to.Store(second)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			select {
			case <-conn.Done():
			case <-ctx.Done():
				t.Fatal("the client does not notice that its server is another one")
			}
			var closed *CloseError
			require.ErrorAs(t, conn.Err(), &closed)
			require.Equal(t, ConnectionLost, closed.Code)
			require.Contains(t, closed.Reason, "restarted")
		})
	}
}

// movesAt is a client's socket whose server is restarted elsewhere as soon as it has answered.
type movesAt struct {
	moved
	next *net.UDPAddr
}

func (m *movesAt) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := m.moved.ReadFrom(b)
	m.to.Store(m.next)
	return n, from, err
}

// TestRestartBehindARetry: a client that has got a Retry from a server can join the
// server that has taken its place in between, whether or not that has many clients
// in their handshake. Otherwise it would wait for half of HandshakeTimeout, or fail.
func TestRestartBehindARetry(t *testing.T) {
	for name, above := range map[string]int{"many": -1, "few": 0} {
		t.Run(name, func(t *testing.T) {
			certificate, err := cert.Development("localhost")
			require.NoError(t, err)
			first, second := serve(t, certificate, Config{RetryAbove: -1}), serve(t, certificate, Config{RetryAbove: above})
			socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
			require.NoError(t, err)
			defer socket.Close()
			way := &movesAt{moved: moved{PacketConn: socket, from: first}, next: second}
			way.to.Store(first)
			world, err := NewWorld(Config{HandshakeTimeout: time.Minute})
			require.NoError(t, err)
			go func() { _ = world.Run(t.Context()) }()
			pin, err := cert.Pinned(cert.Fingerprint(certificate))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			conn, err := DialPacket(ctx, way, first, pin, world)
			require.NoError(t, err)
			conn.Close(HostClosedConnection, "")
			require.NoError(t, conn.Wait(ctx))
		})
	}
}

// serve runs a server until the test ends, and returns where.
func serve(t *testing.T, certificate tls.Certificate, config Config) *net.UDPAddr {
	world, err := NewWorld(config)
	require.NoError(t, err)
	listener, err := Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, world)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() { _ = world.Run(t.Context()) }()
	return listener.Addr().(*net.UDPAddr)
}
