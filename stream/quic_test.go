package stream

import (
	"cmp"
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
)

// overQUIC runs fn in a bubble with a server and a client over quic-go and an emulated path.
func overQUIC(t *testing.T, path netsim.Config, fn func(t *testing.T, l loopback)) {
	overQUICWith(t, path, rpc.Config{}, func(server, client *rpc.World) {}, fn)
}

// overSealed is overQUIC with the sealed carrier open beside it.
func overSealed(t *testing.T, path netsim.Config, fn func(t *testing.T, l loopback)) {
	overQUICWith(t, path, rpc.Config{Sealed: true}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		l.awaitSealed(t)
		fn(t, l)
	})
}

// awaitSealed waits until both ends have the sealed carrier open.
func (l loopback) awaitSealed(t testing.TB) {
	for range 1000 {
		if l.toServer.Conn().Sealed() && l.toClient.Conn().Sealed() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Fail(t, "the sealed carrier does not open")
}

// overQUICWith lets prepare bind more to the two worlds before they run.
func overQUICWith(t *testing.T, path netsim.Config, config rpc.Config, prepare func(server, client *rpc.World), fn func(t *testing.T, l loopback)) {
	overWays(t, path, path, config, prepare, fn)
}

// overWays has a path of its own for what the client sends, and for what the server does.
func overWays(t *testing.T, up, down netsim.Config, config rpc.Config, prepare func(server, client *rpc.World), fn func(t *testing.T, l loopback)) {
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.Pipe(up, down)
		l, leave := joinQUIC(t, near, far, config, prepare)
		fn(t, l)
		leave()
		time.Sleep(time.Minute)
		_, _ = near.Close(), far.Close()
	})
}

// joinQUIC joins a server and a client by quic-go over two sockets.
func joinQUIC(t *testing.T, near, far net.PacketConn, config rpc.Config, prepare func(server, client *rpc.World)) (l loopback, leave func()) {
	h := newHost(t, config)
	world, client := newWorld(t, h.config, Config{})
	prepare(h.world, world)
	go h.world.Run(h.ctx)
	return h.join(near, far, world, client), func() {
		_ = world.Close(h.ctx, 0, "over")
		h.close()
	}
}

// host is a server that clients join by quic-go, each over two sockets of its own.
type host struct {
	*testing.T
	ctx         context.Context
	cancel      context.CancelFunc
	config      rpc.Config
	world       *rpc.World
	streams     *Streams
	certificate tls.Certificate
	joined      chan *rpc.Conn
	listeners   []*rpc.Listener
}

// newHost makes a host that does not run.
func newHost(t *testing.T, config rpc.Config) *host {
	h := &host{T: t, config: config, joined: make(chan *rpc.Conn, 1)}
	h.ctx, h.cancel = context.WithCancel(t.Context())
	h.config.HelloTimeout = cmp.Or(config.HelloTimeout, 10*time.Second) // a lossy path may lose a Hello four times
	var err error
	h.certificate, err = cert.Development("localhost")
	require.NoError(t, err)
	h.world, h.streams = newWorld(t, h.config, Config{})
	h.world.OnConnect(func(c *rpc.Conn) { h.joined <- c })
	return h
}

// join has a client join, whose world runs from then on.
func (h *host) join(near, far net.PacketConn, world *rpc.World, client *Streams) loopback {
	listener, err := rpc.ListenPacket(far, &tls.Config{Certificates: []tls.Certificate{h.certificate}}, h.world)
	require.NoError(h, err)
	h.listeners = append(h.listeners, listener)
	go world.Run(h.ctx)
	pin, err := cert.Pinned(cert.Fingerprint(h.certificate))
	require.NoError(h, err)
	pin.Time = func() time.Time { return h.certificate.Leaf.NotBefore.Add(time.Hour) }
	conn, err := rpc.DialPacket(h.ctx, near, far.LocalAddr(), pin, world)
	require.NoError(h, err)
	return loopback{h.streams, client, h.streams.Peer(<-h.joined), client.Peer(conn)}
}

// close ends the host, and the worlds that run with it.
func (h *host) close() {
	_ = h.world.Close(h.ctx, 0, "over")
	for _, l := range h.listeners {
		_ = l.Close()
	}
	h.cancel()
}

const fullStackBytes = 4 << 20

// move sends a blob and returns how long it took.
func move(t *testing.T, from *Peer, to *Streams, opts ...Option) time.Duration {
	sent := content(fullStackBytes)
	got := collect(to)
	begin := time.Now()
	require.NoError(t, save.Send(t.Context(), from, bytes.NewReader(sent), fullStackBytes, opts...))
	took := time.Since(begin)
	require.True(t, bytes.Equal(sent, (<-got).data))
	return took
}

func TestFullStackAtTheRate(t *testing.T) { overBackends(t, testFullStackAtTheRate) }

func testFullStackAtTheRate(t *testing.T, via Backend) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 10e6}
	ideal := path.Delay + time.Duration(fullStackBytes*8/10e6*float64(time.Second))
	overQUIC(t, path, func(t *testing.T, l loopback) {
		took := move(t, l.toServer, l.server, Via(via))
		t.Logf("up %v, ideal %v", took, ideal)
		require.Less(t, took, ideal*115/100)
	})
	overQUIC(t, path, func(t *testing.T, l loopback) {
		took := move(t, l.toClient, l.client, Via(via))
		t.Logf("down %v, ideal %v", took, ideal)
		require.Less(t, took, ideal*115/100)
	})
}

// TestFullStackOnALossyPath is a benchmark too: it logs how much real time a
// transfer takes, outside the bubble.
func TestFullStackOnALossyPath(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Loss: 0.01, Seed: testkit.Rand(t).Uint64()}
	var took time.Duration
	begin := time.Now()
	overQUIC(t, path, func(t *testing.T, l loopback) { took = move(t, l.toServer, l.server) })
	t.Logf("up: %v of virtual time in %v", took, time.Since(begin))
	begin = time.Now()
	overQUIC(t, path, func(t *testing.T, l loopback) { took = move(t, l.toClient, l.client) })
	t.Logf("down: %v of virtual time in %v", took, time.Since(begin))
}
