package stream

import (
	"context"
	"crypto/tls"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
)

// rush is a server with clients that share its uplink, over the full stack in virtual time.
type rush struct {
	server  *Streams
	peers   []*Peer // the server's
	clients []*Streams

	arrivals []<-chan received
}

func inRush(t *testing.T, clients int, path netsim.Config, fn func(r *rush)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		certificate, err := cert.Development("localhost")
		require.NoError(t, err)
		config := rpc.Config{Sealed: true, HelloTimeout: 10 * time.Second, MaxConnsPerAddress: -1}
		world, server := newWorld(t, config, Config{})
		r := &rush{server: server}
		joined := make(chan *rpc.Conn, 1)
		world.OnConnect(func(c *rpc.Conn) { joined <- c })
		go world.Run(ctx)
		pin := cert.Pinned(cert.Fingerprint(certificate))
		pin.Time = func() time.Time { return certificate.Leaf.NotBefore.Add(time.Hour) }
		var first *netsim.Path
		var ends []func()
		for range clients {
			path.Seed++
			near, far := netsim.Pipe(path, path)
			if first == nil {
				first = far.To(near)
			} else {
				netsim.Share(first, far.To(near))
			}
			listener, err := rpc.ListenPacket(far, &tls.Config{Certificates: []tls.Certificate{certificate}}, world)
			require.NoError(t, err)
			clientWorld, client := newWorld(t, config, Config{})
			go clientWorld.Run(ctx)
			conn, err := rpc.DialPacket(ctx, near, far.LocalAddr(), pin, clientWorld)
			require.NoError(t, err)
			l := loopback{server, client, server.Peer(<-joined), client.Peer(conn)}
			l.awaitSealed(t)
			r.peers, r.clients = append(r.peers, l.toClient), append(r.clients, client)
			ends = append(ends, func() {
				_, _, _, _ = clientWorld.Close(ctx, 0, "over"), listener.Close(), near.Close(), far.Close()
			})
		}
		time.Sleep(time.Second)
		fn(r)
		_ = world.Close(ctx, 0, "over")
		for _, end := range ends {
			end()
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

// TestRush: when a match begins, all take the same at once. The train of each carrier promised the whole link. Where each transfer began with
// that, an eighth of all packets was lost; where each begins with its part it is a fiftieth.
func TestRush(t *testing.T) { overBackends(t, testRush) }

func testRush(t *testing.T, via Backend) {
	const clients, size = 8, 2 << 20
	path := netsim.Config{Delay: 40 * time.Millisecond, Rate: 50e6, Seed: testkit.Seed(t)}
	inRush(t, clients, path, func(r *rush) {
		for i, p := range r.peers {
			r.arrivals = append(r.arrivals, collect(r.clients[i]))
			_, err := save.Start(p, generated(size), size, Via(via))
			require.NoError(t, err)
		}
		for _, arrival := range r.arrivals {
			require.NoError(t, (<-arrival).err)
		}
		sent, lost := r.packets()
		t.Logf("%d of %d packets lost", lost, sent)
		require.Less(t, lost, sent/16)
	})
}

// packets counts those that the server sent in sealed packets.
func (r *rush) packets() (sent, lost uint64) {
	for _, p := range r.peers {
		s := p.Conn().Stats().Sealed
		sent, lost = sent+s.PacketsOut, lost+s.PacketsLost
	}
	return sent, lost
}
