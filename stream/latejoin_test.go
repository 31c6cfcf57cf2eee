package stream

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// late is many clients of one server, which sends each of them a blob at once.
// The first one does not read.
type late struct {
	*network
	peers   []*Peer // the server's
	arrived chan []byte
}

func overLate(t *testing.T, clients int, server Config, fn func(l *late)) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via, server: server, rpc: rpc.Config{MaxConnsPerAddress: -1}}, func(n *network) {
			l := &late{network: n, arrived: make(chan []byte, clients)}
			for i := range clients {
				l.join(i > 0)
			}
			fn(l)
		})
	})
}

func (l *late) join(reads bool) {
	w, s := newWorld(l, rpc.Config{}, Config{MaxPending: minPending})
	save.Handle(s, func(in *IncomingBlob) {
		if !reads {
			return
		}
		go func() {
			got, err := io.ReadAll(in)
			require.NoError(l, err)
			l.arrived <- got
		}()
	})
	go func() { _ = w.Run(l.ctx) }()
	near, _ := l.attach(l.server.world, w)
	l.peers = append(l.peers, l.server.streams.Peer(near))
	context.AfterFunc(l.ctx, func() { _ = w.Close(context.Background(), 0, "test over") })
}

// rush sends data to all, and returns when those that read have it.
func (l *late) rush(data []byte) {
	for _, p := range l.peers {
		_, err := save.Start(p, bytes.NewReader(data), int64(len(data)))
		require.NoError(l, err)
	}
	for range l.peers[1:] {
		require.True(l, bytes.Equal(data, <-l.arrived))
	}
}

// TestLateJoinersShareTheStock: what the server holds is bounded by the world and what
// is everybody's, all of it is given back, and one that does not read holds nobody up.
func TestLateJoinersShareTheStock(t *testing.T) {
	const clients, memory = 16, 8 << 20
	const most = int64(memory / stockShare)
	overLate(t, clients, Config{MaxMemory: memory}, func(l *late) {
		stock, peak := l.server.streams.stock, int64(0)
		l.do(l.server.world, func() {
			l.server.world.OnTick(func(time.Time) { peak = max(peak, stock.Used()) })
		})
		l.rush(content(1 << 20))
		time.Sleep(time.Second)
		l.do(l.server.world, func() {
			require.Greater(l, peak, most/4, "that much was in it at a tick, so the stock has bound them")
			require.LessOrEqual(l, peak, most+clients*(minStock+2*blockBytes))
		})
		require.LessOrEqual(l, stock.Used(), int64(minStock+maxReadAhead))
		l.peers[0].Conn().Close(0, "enough")
		time.Sleep(2 * time.Second)
		require.Zero(l, stock.Used())
	})
}

// TestTicksThatEndEarlyGoOn: with time for one peer in each tick all get their blobs.
func TestTicksThatEndEarlyGoOn(t *testing.T) {
	overLate(t, 8, Config{}, func(l *late) {
		now := time.Now()
		l.do(l.server.world, func() {
			l.server.streams.clock.now = func() time.Time { now = now.Add(time.Second); return now }
		})
		l.rush(content(300_000))
	})
}
