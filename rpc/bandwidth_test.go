package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPacer(t *testing.T) {
	require.Nil(t, newPacer(0))
	require.Zero(t, newPacer(0).reserve(time.Unix(0, 0), 1<<20))

	p := newPacer(100_000) // UE: the default NetSpeed
	now := time.Unix(1000, 0)
	t.Log("# the credit of 66 ms goes at once")
	sent := 0
	for p.reserve(now, 1000) == 0 {
		sent += 1000
	}
	require.Equal(t, 7000, sent, "6,600 bytes of credit: the last datagram goes into debt")
	t.Log("# then each waits for those before it")
	wait := p.reserve(now, 1000)
	require.Equal(t, 14*time.Millisecond, wait)
	require.Equal(t, 24*time.Millisecond, p.reserve(now, 1000))
	t.Log("# an idle pacer saves no more than its credit")
	now = now.Add(time.Hour)
	sent = 0
	for p.reserve(now, 1000) == 0 {
		sent += 1000
	}
	require.Equal(t, 7000, sent)
}

func TestSlowPacerLetsDatagramsThrough(t *testing.T) {
	p := newPacer(1000)
	now := time.Unix(1000, 0)
	require.Zero(t, p.reserve(now, 1200))
	require.Zero(t, p.reserve(now, 1200))
	require.Zero(t, p.reserve(now, 1200))
	require.Equal(t, 600*time.Millisecond, p.reserve(now, 1200))
}

func TestBandwidthCaps(t *testing.T) {
	const size = 32 << 10
	for _, row := range []struct {
		name    string
		config  Config
		seconds float64 // that two clients take for 4 calls each
	}{
		{"none", Config{}, 0},
		{"a connection", Config{Rate: 64 << 10}, 2},
		{"the world", Config{WorldRate: 64 << 10}, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			inNet(t, 2, row.config, func(n *network) {
				first, second := n.spawn(0), n.spawn(1)
				for range 4 {
					require.NoError(t, bulk.Call(first, make(Raw, size)))
					require.NoError(t, bulk.Call(second, make(Raw, size)))
				}
				start := time.Now()
				for n.clients[0].received < 4*size || n.clients[1].received < 4*size {
					n.tick(1)
				}
				took := time.Since(start).Seconds()
				require.InDelta(t, row.seconds, took, 0.1+row.seconds/20)
			})
		})
	}
}

func TestCloseDoesNotWaitForTheCap(t *testing.T) {
	inNet(t, 1, Config{Rate: 100}, func(n *network) {
		a := n.spawn(0)
		require.NoError(t, bulk.Call(a, make(Raw, 32<<10)))
		n.tick(3)
		start := time.Now()
		n.conns[0].Close(0, "bye")
		<-n.conns[0].Done()
		require.LessOrEqual(t, time.Since(start), time.Second, "the drain's limit")
	})
}
