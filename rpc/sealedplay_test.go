package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestFloodOfPlayOverSealedPackets: a game that makes four times as many unreliable calls
// as the path can carry has no more in flight than the path holds. Each of the others is
// dropped and counted. Reliable calls made at the same time wait, and all arrive.
func TestFloodOfPlayOverSealedPackets(t *testing.T) {
	const size, seconds = 500, 10
	for _, queue := range []bool{false, true} {
		path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 1e6, Queue: 1 << 20, Seed: testkit.Seed(t)}
		config := Config{Sealed: true, QueueUnreliable: queue}
		overSealedWith(t, path, config, config, func(n *sealedNet) {
			n.reach(n.near, sealed.Open)
			n.reach(n.far, sealed.Open)
			a := n.spawn(0)
			n.tick(30)
			client, conn := n.clients[0], n.conns[0]
			client.take()
			made, hits, most := 0, 0, 0
			for tick := range seconds * 30 {
				for range 33 {
					require.NoError(t, wave.Call(a, make(Raw, size)))
					made++
				}
				if tick%10 == 0 {
					require.NoError(t, hit.Call(a, tick))
					hits++
				}
				n.tick(1)
				most = max(most, conn.Stats().InFlight)
			}
			n.tick(60)
			drops := conn.Stats().Drops
			heard := client.waves / size
			t.Logf("made %d, heard %d, drops %+v, in flight at most %d", made, heard, drops, most)
			require.Equal(t, uint64(made-heard), drops.Saturated+drops.Unreliable, "each is heard or counted")
			require.Greater(t, float64(client.waves), 0.7*seconds*1e6/8, "the path stays full")
			require.Less(t, most, 40<<10, "the path holds 6 KiB, its queue 1 MiB")
			require.Equal(t, hits, len(client.take()), "reliable calls wait")
			require.Zero(t, conn.Stats().Sealed.PacketsLost)
		})
	}
}

// TestPlayThroughDarknessOfBothCarriers: an outage of twelve seconds ends no connection
// whose game makes thirty reliable calls a second: they wait, several in one entry, and
// all arrive. While nothing arrives only probes are sent. Before, over sealed packets each
// call was also sent alone as long as QUIC was silent, which filled the reliable buffer
// after eight seconds, and a world that slept got all unreliable calls since when it woke.
func TestPlayThroughDarknessOfBothCarriers(t *testing.T) {
	for _, on := range []bool{true, false} {
		config := Config{Sealed: on}
		path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 10e6, Seed: testkit.Seed(t)}
		overSealedWith(t, path, config, config, func(n *sealedNet) {
			if on {
				n.reach(n.near, sealed.Open)
				n.reach(n.far, sealed.Open)
			}
			a, calls := n.spawn(0), 0
			play := func(ticks int) {
				for range ticks {
					require.NoError(t, hit.Call(a, calls))
					require.NoError(t, blink.Call(a, calls))
					calls++
					n.tick(1)
				}
			}
			play(30)
			n.dark.Store(true)
			play(60)
			out := n.conns[0].Stats().PayloadOut
			play(300)
			out = n.conns[0].Stats().PayloadOut - out
			n.dark.Store(false)
			play(90)
			n.tick(30)
			require.NoError(t, n.conns[0].Err())
			hits := 0
			for _, heard := range n.clients[0].take() {
				if heard == "hit" {
					hits++
				}
			}
			t.Logf("sealed %v: %d bytes of calls left in ten seconds of darkness", on, out)
			require.Equal(t, calls, hits)
			require.Less(t, out, uint64(3000), "probes")
		})
	}
}

// TestPlayKeepsQUICAwake: while sealed packets carry play, QUIC becomes idle at
// neither end, however short IdleTimeout is, and whichever end has no
// KeepAlive. quic-go assumes five seconds for a peer's IdleTimeout that is
// shorter, so the client's keep-alives were too late for such a server.
func TestPlayKeepsQUICAwake(t *testing.T) {
	on, off := time.Duration(0), time.Duration(-1)
	for _, keep := range [][2]time.Duration{{on, off}, {off, on}, {off, off}} {
		for _, idle := range [][2]time.Duration{{1, 0}, {2, 0}, {5, 0}, {0, 1}, {0, 2}, {1, 1}, {0, 0}} {
			far := Config{Sealed: true, KeepAlive: keep[0], IdleTimeout: idle[0] * time.Second}
			near := Config{Sealed: true, KeepAlive: keep[1], IdleTimeout: idle[1] * time.Second}
			overSealedWith(t, clean, far, near, func(n *sealedNet) {
				n.reach(n.near, sealed.Open)
				n.reach(n.far, sealed.Open)
				a := n.spawn(0)
				for range testkit.Brief(12, 45) * 30 {
					require.NoError(t, hit.Call(a, 1))
					n.tick(1)
				}
				require.NoError(t, n.ends[0].Err(), "KeepAlive %v, IdleTimeout %v", keep, idle)
				require.True(t, n.ends[0].Sealed())
			})
		}
	}
}

// TestPlayBesideACarrierThatOpensAgain: over a slow path, a carrier that opens
// in mid-game does not delay calls. By then QUIC has measured small packets,
// and a round trip like that of a fast path. Before, the carrier measured it
// with sixteen full packets, and a call waited four seconds for them.
func TestPlayBesideACarrierThatOpensAgain(t *testing.T) {
	overSealed(t, netsim.Config{Delay: 5 * time.Millisecond, Rate: 96e3}, true, func(n *sealedNet) {
		n.reach(n.near, sealed.Open)
		n.reach(n.far, sealed.Open)
		a, client := n.spawn(0), n.clients[0]
		longest := func(calls int) (ticks int) {
			client.take()
			for range calls {
				require.NoError(t, hit.Call(a, 1))
				took := 0
				for ; len(client.take()) == 0; took++ {
					n.tick(1)
				}
				ticks = max(ticks, took)
				n.tick(5)
			}
			return ticks
		}
		longest(600)
		for calls := 0; n.near.quic.Path().SmoothedRTT >= 64*time.Millisecond; calls++ {
			longest(1) // a packet of QUIC's own, which is larger, may have been the last
			require.Less(t, calls, 600)
		}
		n.near.carriers.current().Close()
		ticks := longest(100)
		require.EqualValues(t, 2, n.ends[0].Stats().Sealed.Carriers)
		require.True(t, n.ends[0].Sealed())
		require.Less(t, ticks, 15)
	})
}
