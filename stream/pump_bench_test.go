package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/rpc"
)

// countedChannel is a reliable buffer whose entries are acknowledged at once.
type countedChannel struct{ out int }

func (c *countedChannel) Reliable() (out, slots int) { return c.out, 256 }

// BenchmarkPump is the gate and the order of a pump, an RPC of 30 entries an operation.
func BenchmarkPump(b *testing.B) {
	ch := &countedChannel{}
	emit := func(int) error { ch.out += 30; return nil }
	p, err := NewPump(ch, Gate{}, b.N, 30, emit, func() error { return nil })
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	for done := false; !done; ch.out = 0 {
		done, err = p.Tick()
		require.NoError(b, err)
	}
}

// BenchmarkStream sends a blob from Start to the reader at the other end over a
// pipe in memory: the streamer, the machines and the links without QUIC.
func BenchmarkStream(b *testing.B) {
	data := content(1 << 20)
	for _, via := range []Backend{Window{}, Window{Lanes: 8}, Slices{}} {
		b.Run(fmt.Sprintf("%T%+v", via, via), func(b *testing.B) {
			p := inMemory(b)
			save.Handle(p.client, func(in *IncomingBlob) { go io.Copy(io.Discard, in) })
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				err := save.Send(b.Context(), p.toClient, bytes.NewReader(data), int64(len(data)), Via(via))
				require.NoError(b, err)
			}
		})
	}
}

// inMemory is a server and a client over a pipe without delay and with a window that never binds.
func inMemory(tb testing.TB) loopback {
	serverWorld, server := newWorld(tb, rpc.Config{}, Config{})
	clientWorld, client := newWorld(tb, rpc.Config{}, Config{})
	joined := make(chan *rpc.Conn, 1)
	serverWorld.OnConnect(func(c *rpc.Conn) { joined <- c })
	near, far := linktest.Pipe()
	near.SetPath(link.Path{Cwnd: 4 << 20, MaxDatagram: 1404})
	far.SetPath(link.Path{Cwnd: 4 << 20, MaxDatagram: 1404})
	_, err := serverWorld.Attach(plug{far})
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	go serverWorld.Run(ctx)
	go clientWorld.Run(ctx)
	conn, err := clientWorld.Connect(ctx, plug{near})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_ = clientWorld.Close(ctx, 0, "over")
		_ = serverWorld.Close(ctx, 0, "over")
		time.Sleep(time.Millisecond) // the worlds take the end
		cancel()
	})
	return loopback{server: server, client: client, toClient: server.Peer(<-joined), toServer: client.Peer(conn)}
}

// BenchmarkIdlePeers is a tick of a world in which one peer has something,
// beside others that have nothing.
func BenchmarkIdlePeers(b *testing.B) {
	for _, others := range []int{0, 100, 1000, 5000} {
		b.Run(strconv.Itoa(others), func(b *testing.B) {
			world, s := newWorld(b, rpc.Config{MaxConns: 6000, MaxConnsPerAddress: -1, ReceiveLimit: 256 << 10, ReceiveBudget: 1<<31 - 1}, Config{})
			var one *Peer
			for range others + 1 {
				_, far := linktest.Pipe()
				conn, err := world.Attach(plug{far})
				require.NoError(b, err)
				p := s.joinedPeer(conn)
				p.active, p.control.greeted = true, true
				s.joined = append(s.joined, p)
				one = p
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				one.call()
				s.tick(time.Now())
			}
			b.StopTimer()
			_ = world.Close(b.Context(), 0, "over")
		})
	}
}
