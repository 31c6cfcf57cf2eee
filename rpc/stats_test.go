package rpc

import (
	"testing"
	"time"

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

func TestSampler(t *testing.T) {
	now := time.Unix(1000, 0)
	s := sampler{at: now}
	in, out := s.rates(now, 0, 0)
	require.Zero(t, in+out)
	in, _ = s.rates(now.Add(time.Second/2), 100, 0)
	require.InDelta(t, 200, in, 1e-9, "since the start")
	in, out = s.rates(now.Add(2*time.Second), 1000, 10)
	require.InDelta(t, 500, in, 1e-9)
	require.InDelta(t, 5, out, 1e-9)
	in, _ = s.rates(now.Add(2500*time.Millisecond), 9000, 10)
	require.InDelta(t, 500, in, 1e-9, "of the last whole sample")
	in, _ = s.rates(now.Add(3*time.Second), 9000, 10)
	require.InDelta(t, 8000, in, 1e-9)
}
