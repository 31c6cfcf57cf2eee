package stream

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// Transfers take what Config.Rate leaves, whichever way they travel, and their acks are not held: the peer's rate is used up
// by a transfer of its own.
func TestTransfersKeepToTheRate(t *testing.T) { overBackends(t, testTransfersKeepToTheRate) }

func testTransfersKeepToTheRate(t *testing.T, via Backend) {
	const rate, size = 200_000, 1 << 20
	inNetwork(t, setup{via: via, rpc: rpc.Config{Rate: rate}}, func(n *network) {
		down, up := collect(n.client.streams), collect(n.server.streams)
		start := time.Now()
		first := n.mustStart(n.server.peer, content(size))
		second := n.mustStart(n.client.peer, content(size))
		require.NoError(n, first.Wait(n.ctx))
		require.NoError(n, second.Wait(n.ctx))
		took := time.Since(start).Seconds()
		require.InDelta(n, float64(size)/rate, took, 0.2*float64(size)/rate)
		require.NoError(n, (<-down).err)
		require.NoError(n, (<-up).err)
	})
}

// TestRateIsAGate: what waits in lanes while Config.Rate holds bulk back is no more than the gate's queue time at that rate, and
// no lanes are opened for it: so a second transfer begins at once beside a first one.
func TestRateIsAGate(t *testing.T) {
	for _, row := range []struct {
		name   string
		config rpc.Config
	}{
		{"quic", rpc.Config{Rate: 4e6}},
		{"sealed", rpc.Config{Sealed: true, Rate: 4e6}},
		{"sealed world", rpc.Config{Sealed: true, WorldRate: 4e6}},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := netsim.Config{Delay: 100 * time.Microsecond, Seed: testkit.Seed(t)}
			overQUICWith(t, path, row.config, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
				got := collect(l.server)
				size := testkit.Brief(5<<20, 8<<20) // more than a second, or two
				first, err := save.Start(l.toServer, bytes.NewReader(content(size)), int64(size))
				require.NoError(t, err)
				for range 10 {
					time.Sleep(100 * time.Millisecond)
					require.Equal(t, defaultLanes, l.toServer.Stats().Lanes)
					require.Less(t, l.toServer.Conn().Stats().Queued, 160<<10, "20 ms, and the RPC that passed the gate")
				}
				begin := time.Now()
				second, err := save.Start(l.toServer, bytes.NewReader(content(64<<10)), 64<<10)
				require.NoError(t, err)
				require.NoError(t, second.Wait(t.Context()))
				require.Less(t, time.Since(begin), 120*time.Millisecond)
				require.NoError(t, first.Wait(t.Context()))
				<-got
				<-got
			})
		})
	}
}
