package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// shrunken is a path of 20 Mbit/s whose MTU is the least that carries QUIC,
// though QUIC has found more: a datagram of 1,163 bytes still passes.
func shrunken(seed uint64, loss float64) netsim.Config {
	return netsim.Config{Delay: 25 * ms, Rate: 20e6, Loss: loss, MTU: SafePacket, Seed: seed}
}

// half is a piece of which a large packet has two and a safe one has one.
const half = 700

// TestOpensOnAPathThatShrank: a path that shrank after QUIC had found its MTU.
// Opening probes of that size never arrived.
func TestOpensOnAPathThatShrank(t *testing.T) {
	seed := testkit.Seed(t)
	for _, loss := range []float64{0, 0.02, 0.1} {
		const n = 1 << 20 / half
		a, b := newPieces(half, n, 0), newPieces(half, 0, n)
		link := shrunken(seed, loss)
		pair, client, server := connect(t, a, b, netsim.PairConfig{AtoB: link, BtoA: link, Max: FullPacket})
		require.NoError(t, pair.Run(10*time.Second, func() bool { return client.State() == Open && server.State() == Open }))
		opened := pair.Now().Sub(netsim.Epoch)
		require.NoError(t, pair.Run(time.Minute, a.delivered))
		require.Empty(t, a.faults)
		require.Zero(t, b.bad)
		ideal := time.Duration(n * (half + Overhead + dataHeader + wireOverhead) * 8 / 20e6 / (1 - loss) * 1e9)
		took := b.doneAt.Sub(netsim.Epoch)
		t.Logf("%.0f %%: open after %v, whole after %v (wire time %v); %+v", 100*loss, opened, took, ideal, client.Stats())
		if loss == 0 {
			require.Less(t, opened, 100*ms, "a round trip, and no probe lost")
			require.Less(t, took, 2*ideal+800*ms, "the train is lost once")
		}
	}
}

// TestTrainOfSmallerPackets measures the path when the first train of large ones vanished whole.
func TestTrainOfSmallerPackets(t *testing.T) {
	link := shrunken(testkit.Seed(t), 0)
	pair, client, _ := connect(t, newPieces(half, 0, 0), newPieces(half, 0, 0), netsim.PairConfig{AtoB: link, BtoA: link, Max: FullPacket})
	require.NoError(t, pair.RunFor(2*time.Second))
	require.Equal(t, Open, client.State())
	require.InEpsilon(t, 20e6/8, client.Controller().Estimate(), 0.1)
	sent := client.Stats().Sent
	require.NoError(t, pair.RunFor(time.Minute))
	require.InDelta(t, sent, client.Stats().Sent, 6, "then nothing but large packets that are tried: after 10, 20, 40 s")
}

// TestPathShrinksAndGrows under an open carrier in the middle of a transfer.
func TestPathShrinksAndGrows(t *testing.T) {
	seed := testkit.Seed(t)
	for _, loss := range []float64{0, 0.02, 0.1} {
		link := shrunken(seed, loss)
		link.MTU, link.Rate = 0, 4e6
		const n = 400 << 20 / half // for 10 min: a try in ten is lost, and the next one comes after twice as long
		largest := 0
		states := map[State]bool{}
		a, b := newPieces(half, n, 0), newPieces(half, 0, n)
		var client *Session
		pair, client, _ := connect(t, a, b, netsim.PairConfig{AtoB: link, BtoA: link, Max: FullPacket, OnPacket: func(_ *netsim.Side, p []byte, _ netsim.Fate) {
			largest = max(largest, len(p))
			if client != nil {
				states[client.State()] = true
			}
		}})
		acked := func(d time.Duration) float64 {
			before := a.ackedN
			require.NoError(t, pair.RunFor(d))
			return float64((a.ackedN-before)*half) / d.Seconds()
		}
		acked(3 * time.Second)
		usual := acked(2 * time.Second)
		require.Greater(t, largest, SafePacket)

		t.Log("# it shrinks: smaller packets within a second")
		pair.SetMTU(SafePacket)
		clear(states)
		acked(time.Second)
		largest = 0
		small := acked(8 * time.Second)
		require.LessOrEqual(t, largest, SafePacket, "one piece, and feedback at times")
		require.NotContains(t, states, Silent)
		require.True(t, client.mtu.shrunk)

		t.Log("# a large one is tried after 10 s, and 20 s later; it costs nothing")
		later := acked(21 * time.Second)
		require.Equal(t, FullPacket, largest, "tried")
		require.True(t, client.mtu.shrunk, "in vain")

		t.Log("# it grows again: noticed at the next try")
		pair.SetMTU(0)
		require.NoError(t, pair.Run(10*time.Minute, func() bool { return !client.mtu.shrunk }))
		acked(2 * time.Second)
		again := acked(3 * time.Second)
		t.Logf("%.0f %%: %.0f bytes a second, small %.0f, %.0f, again %.0f after %v; %+v",
			100*loss, usual, small, later, again, pair.Now().Sub(netsim.Epoch), client.Stats())
		if loss == 0 {
			require.Greater(t, small, 0.9*usual)
			require.Greater(t, later, 0.9*usual)
		}
		part := 0.7
		if loss > 0.05 {
			part = 0.2 // some seconds are taken for congestion, which internal/scenes measures
		}
		require.Greater(t, again, part*usual)
		require.Empty(t, a.faults)
		require.Zero(t, b.bad)
	}
}

// TestOutageIsNoHole: at the end of an outage a small probe is the first packet to arrive,
// and all lost packets were large. One large packet shows that the path takes them.
func TestOutageIsNoHole(t *testing.T) {
	link := shrunken(testkit.Seed(t), 0)
	link.MTU = 0
	const n = 40 << 20 / half
	a, b := newPieces(half, n, 0), newPieces(half, 0, n)
	pair, client, _ := connect(t, a, b, netsim.PairConfig{AtoB: link, BtoA: link, Max: FullPacket})
	for _, dark := range []time.Duration{100 * ms, time.Second, 3 * time.Second} {
		require.NoError(t, pair.RunFor(2*time.Second))
		pair.Dark(dark)
		require.NoError(t, pair.RunFor(dark+500*ms))
		require.Equal(t, Open, client.State())
		require.False(t, client.mtu.shrunk, "dark for %v", dark)
	}
}

// TestMovedForgetsTheHole: on another path packets are as large as QUIC allows,
// whatever happens to packets sent before.
func TestMovedForgetsTheHole(t *testing.T) {
	s := newStep(t, 0, nil).open()
	s.a.mtu = pathMTU{shrunk: true, shrunkAt: 1, retryAt: time.Hour}
	s.a.Moved(s.now)
	require.Equal(t, FullPacket, s.a.mtu.limit(FullPacket))
	for range 3 {
		s.a.mtu.lost(0, 0, &record{size: FullPacket})
	}
	s.a.mtu.acked(s.a.records.Next, &record{size: 100})
	s.a.mtu.checkBlackHole(0, s.a.records.Next+1)
	require.Equal(t, FullPacket, s.a.mtu.limit(FullPacket))
}
