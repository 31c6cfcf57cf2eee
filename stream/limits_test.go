package stream

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/rpc"
)

// TestSmallBuffersAndBunches: whatever limits the connection agrees on, both backends work, with
// smaller parts if need be. A blob once failed if the reliable buffer had fewer than 64 entries, or
// if MaxBunch was below 32,710.
func TestSmallBuffersAndBunches(t *testing.T) {
	limits := func(buffer, maxBunch int) rpc.Config {
		return rpc.Config{Bunch: bunch.Config{ReliableBuffer: buffer, MaxBunch: maxBunch}}
	}
	for _, row := range []struct {
		server, client rpc.Config
		shares         []float64
	}{
		{limits(8, 0), limits(8, 0), []float64{0, 0.1, 0.9, 0.999}},
		{limits(256, 0), limits(8, 0), []float64{0}},
		{limits(0, 32_709), limits(0, 0), []float64{0}},
		{limits(0, 0), limits(0, minMaxBunch), []float64{0}},
		{limits(32, 4000), limits(16, 5000), []float64{0, 0.7}},
		{limits(8, minMaxBunch), limits(8, minMaxBunch), []float64{0, 0.999}},
		{limits(0, 0), limits(0, 0), []float64{0.001, 0.9, 0.99, 1 - 1e-16}},
		{limits(16384, 0), limits(16384, 0), []float64{1e-9, 1 - 1e-16}},
	} {
		for _, share := range row.shares {
			name := fmt.Sprintf("%+v, %+v, %v", row.server.Bunch.ReliableBuffer, row.client.Bunch.MaxBunch, share)
			t.Run(name, func(t *testing.T) { testSmallBuffersAndBunches(t, row.server, row.client, share) })
		}
	}
}

func testSmallBuffersAndBunches(t *testing.T, server, client rpc.Config, share float64) {
	inNetwork(t, setup{via: Window{Share: share}, rpc: server, clientRPC: &client}, func(n *network) {
		for _, e := range [][2]end1{{n.server, n.client}, {n.client, n.server}} {
			from, to := e[0], e[1]
			got, taken := collect(to.streams), n.collectItems(to.streams)
			for _, size := range []int{0, 1, 3000, 100_001} {
				for _, via := range []Backend{Window{Share: share}, Slices{}} {
					require.NoError(n, n.mustStart(from.peer, content(size), Via(via), Name("slot 3")).Wait(n.ctx))
					require.True(n, bytes.Equal(content(size), (<-got).data))
				}
			}
			require.NoError(n, items.Send(n.ctx, from.peer, testItems(3000)))
			require.NoError(n, <-taken)
		}
		require.NoError(n, n.server.peer.conn.Err())
	})
}

// TestElementsThatMightNotFit: an element can't be cut, so an array whose elements might be too
// large fails before its first RPC, and says what to change.
func TestElementsThatMightNotFit(t *testing.T) {
	large := NewArray[[]byte]("large", MaxElementBytes(20_000))
	inNetwork(t, setup{rpc: rpc.Config{Bunch: bunch.Config{ReliableBuffer: 32, MaxBunch: 19_000}}}, func(n *network) {
		large.Handle(n.client.streams, func(in *IncomingArray[[]byte]) { in.OnBatch(func([][]byte) {}) })
		send := func(opts ...Option) error { return large.Send(n.ctx, n.server.peer, [][]byte{{1}}, opts...) }
		require.EqualError(n, send(), `stream: too large: array "large" to conn 1 stopped by the sender, 0 of 1 elements sent: `+
			`element may take up to 20000 bytes; the limit is 17536 with a ReliableBuffer of 32 entries, a MaxBunch of 19000 bytes `+
			`and a Window.Share of 0.5: reduce the bounds of its fields or use Slices`)
		require.ErrorContains(n, send(Via(Window{Share: 0.1})), "the limit is 18936 with")
		require.NoError(n, send(Via(Slices{})))
	})
}

// TestTooSmallMaxBunch: messages about transfers would not fit.
func TestTooSmallMaxBunch(t *testing.T) {
	for _, size := range []int{138, minMaxBunch - 1} { // 138 is the minimum of a world
		w, err := rpc.NewWorld(rpc.Config{Bunch: bunch.Config{MaxBunch: size}})
		require.NoError(t, err)
		_, err = Install(w, Config{})
		require.EqualError(t, err, fmt.Sprintf("stream: rpc.Config.Bunch.MaxBunch is %d; "+
			"the minimum is 1024, so that messages about transfers fit", size))
	}
}

// TestPeerWithATinyMaxBunch: a client may claim any MaxBunch in its Hello. Parts of a negative size
// once crashed the server.
func TestPeerWithATinyMaxBunch(t *testing.T) {
	agreed := extend.MaxBunchOf
	defer func() { extend.MaxBunchOf = agreed }()
	var claimed atomic.Int64
	extend.MaxBunchOf = func(any) int { return int(claimed.Load()) }
	inNetwork(t, setup{}, func(n *network) {
		for _, size := range []int{1, 63, 64, minMaxBunch - 1} {
			claimed.Store(int64(size))
			for _, via := range []Backend{Window{}, Slices{}} {
				err := save.Send(n.ctx, n.server.peer, bytes.NewReader(content(10_000)), -1, Via(via))
				require.EqualError(n, err, fmt.Sprintf(`stream: canceled: blob "save" to conn 1 stopped by the sender, `+
					`0 bytes sent: peer limits messages to %d bytes (MaxBunch); transfers need 1024`, size))
			}
			err := items.Send(n.ctx, n.server.peer, testItems(300))
			require.ErrorContains(n, err, "transfers need 1024")
		}
	})
}

// TestMessagesFitTheSmallestBunch: the largest header, and the largest reason.
func TestMessagesFitTheSmallestBunch(t *testing.T) {
	text := func(n int) string { return string(bytes.Repeat([]byte{'x'}, n)) }
	h := header{id: 1 << 62, kind: kindArray, topic: text(maxTopicBytes), name: text(maxNameBytes), key: text(maxKeyBytes),
		hash: SHA256, size: maxSize, count: maxSize, shape: 1 << 63}
	for _, m := range []interface{ AppendBinary([]byte) ([]byte, error) }{
		h,
		stop{id: 1 << 62, code: stopRejected, reason: text(maxReasonBytes)},
	} {
		b, err := m.AppendBinary(nil)
		require.NoError(t, err)
		require.Less(t, len(b)+rpcOverhead, minMaxBunch)
	}
}
