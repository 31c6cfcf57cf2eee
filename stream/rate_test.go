package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
