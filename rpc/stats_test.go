package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStats(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		n.conns[0].Stats()
		lost := 0
		n.pipes[0][1].SetDrop(func([]byte) bool {
			lost++
			return lost%10 == 0
		})
		for range 60 {
			require.NoError(t, bulk.Call(a, make(Raw, 5000)))
			n.tick(1)
		}
		n.pipes[0][1].SetDrop(nil)
		n.tick(10)
		require.Equal(t, 60*5000, n.clients[0].received)
		server, client := n.conns[0].Stats(), n.ends[0].Stats()
		require.GreaterOrEqual(t, server.MinRTT, 2*testDelay)
		require.GreaterOrEqual(t, server.SmoothedRTT, server.MinRTT)
		require.NotZero(t, server.BunchesResent)
		require.InDelta(t, 0.1, server.LossOut, 0.05)
		require.InDelta(t, 0.1, client.LossIn, 0.05)
		require.Less(t, server.LossIn, 0.1, "nothing but a number that the peer left out")
		require.Greater(t, server.RateOut, 100e3, "150 kB/s for two of the seconds")
		require.Greater(t, client.RateIn, 100e3)
		require.Empty(t, server.Channels)
		require.Equal(t, 1243, server.MaxDatagram)
		require.Equal(t, server.PacketsOut-server.PacketsLost, client.PacketsIn)
	})
}
