package stream

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc"
)

// packetCarrier carries datagrams straight over an emulated path, without QUIC
// and so without its congestion control.
type packetCarrier struct {
	*netsim.PacketConn
	peer net.Addr
}

func (c packetCarrier) SendDatagram(p []byte) error {
	_, err := c.WriteTo(p, c.peer)
	return err
}

func (c packetCarrier) ReceiveDatagram(context.Context) ([]byte, error) {
	buf := make([]byte, 1500)
	n, _, err := c.ReadFrom(buf)
	return buf[:n], err
}

func (c packetCarrier) Path() rpc.Path {
	return rpc.Path{Cwnd: 2 << 20, SmoothedRTT: 50 * time.Millisecond, MaxDatagram: 1404}
}

func (c packetCarrier) CloseWithError(uint64, string) error { return c.Close() }

// overPath runs fn in a bubble with two worlds joined by an emulated path.
func overPath(t *testing.T, path netsim.Config, fn func(ctx context.Context, l loopback)) {
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.Pipe(path, path)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		serverWorld, server := newWorld(t, rpc.Config{HelloTimeout: 10 * time.Second}, Config{}) // half of the packets may be lost
		clientWorld, client := newWorld(t, rpc.Config{}, Config{})
		joined := make(chan *rpc.Conn, 1)
		serverWorld.OnConnect(func(c *rpc.Conn) { joined <- c })
		go serverWorld.Run(ctx)
		go clientWorld.Run(ctx)
		_, err := serverWorld.Attach(packetCarrier{PacketConn: far, peer: near.LocalAddr()})
		require.NoError(t, err)
		conn, err := clientWorld.Connect(ctx, packetCarrier{PacketConn: near, peer: far.LocalAddr()})
		require.NoError(t, err)
		fn(ctx, loopback{server, client, server.Peer(<-joined), client.Peer(conn)})
		require.NoError(t, clientWorld.Close(ctx, 0, "over"))
		require.NoError(t, serverWorld.Close(ctx, 0, "over"))
	})
}

// TestBigTransfersOverTerriblePaths moves 64 MiB and an array of structs with
// strings and inner slices at up to 50 % loss, with duplicates and packets out
// of order, and holds the outstanding entries to R/2-1+N.
func TestBigTransfersOverTerriblePaths(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.05, 0.2, 0.5} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			t.Parallel()
			path := netsim.Config{Delay: 25 * time.Millisecond, Loss: loss, Duplicate: 0.02, Reorder: 0.02, Seed: testkit.Rand(t).Uint64()}
			overPath(t, path, func(ctx context.Context, l loopback) {
				size := int64(64 << 20)
				if testing.Short() {
					size = 4 << 20
				}
				blob, bag := make(chan error, 1), make(chan []item, 1)
				save.Handle(l.server, func(in *IncomingBlob) {
					go func() {
						_, err := io.Copy(io.Discard, in) // its SHA-256 is checked on the way
						blob <- err
					}()
				})
				items.Handle(l.server, func(in *IncomingArray[item]) {
					go func() {
						all, err := in.Collect(ctx)
						require.NoError(t, err)
						bag <- all
					}()
				})
				begin := time.Now()
				transfer, err := save.Start(l.toServer, bytes.NewReader(content(int(size))), size)
				require.NoError(t, err)
				sent := testItems(20_000)
				require.NoError(t, items.Send(ctx, l.toServer, sent))
				require.Equal(t, sent, <-bag)
				require.NoError(t, transfer.Wait(ctx))
				require.NoError(t, <-blob)
				stats, conn := l.toServer.Stats(), l.toServer.Conn().Stats()
				require.LessOrEqual(t, stats.PeakOut, 256/2-1+30)
				t.Logf("%v virtual, %d packets, %d lost, %d bunches again, at most %d entries out",
					time.Since(begin), conn.PacketsOut, conn.PacketsLost, conn.BunchesResent, stats.PeakOut)
			})
		})
	}
}
