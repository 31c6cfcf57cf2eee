package rpc

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/testkit"
)

// opened begins a test with both carriers open, and an actor that the client owns.
func (n *sealedNet) opened() *Actor {
	n.reach(n.near, sealed.Open)
	n.reach(n.far, sealed.Open)
	a := n.spawn(0)
	n.tick(30)
	n.clients[0].take()
	return a
}

// TestCarrierStaysInTheDark: if nothing arrives over QUIC either, a change of the carrier
// does not help. Everything continues over sealed packets once the path carries again.
func TestCarrierStaysInTheDark(t *testing.T) {
	for _, dark := range []int{2, 8, 20} {
		overSealed(t, clean, true, func(n *sealedNet) {
			a := n.opened()
			send(n.near, 3000)
			n.tick(5)
			n.dark.Store(true)
			for tick := range dark * 30 {
				if tick%10 == 0 {
					require.NoError(t, hit.Call(a, 1))
				}
				n.tick(1)
				require.True(t, n.ends[0].Sealed())
				require.True(t, n.conns[0].Sealed())
			}
			n.dark.Store(false)
			for range 90 {
				n.tick(1)
				require.True(t, n.ends[0].Sealed())
				require.True(t, n.conns[0].Sealed())
			}
			n.arrive(n.far, 3000)
			require.Len(t, n.clients[0].take(), dark*3)
			require.Equal(t, uint32(1), n.near.carriers.stats().Carriers)
		})
	}
}

// TestPlayFallsBackSoon: play alone moves to QUIC three probe timeouts after sealed packets no
// longer arrive, and two after a packet of QUIC arrived. The first sealed ack moves it back.
func TestPlayFallsBackSoon(t *testing.T) {
	overSealed(t, clean, true, func(n *sealedNet) {
		a := n.opened()
		mirror := n.mirror(0, a)
		n.blocked.Store(true)
		begin := time.Now()
		for n.conns[0].Sealed() || n.ends[0].Sealed() {
			require.NoError(t, hit.Call(a, 1))
			require.NoError(t, shout.Call(mirror, "up"))
			n.tick(1)
		}
		t.Log(time.Since(begin))
		require.Less(t, time.Since(begin), 800*time.Millisecond)
		require.Equal(t, "silent", n.conns[0].Stats().Sealed.State)
		n.tick(10)
		n.clients[0].take()
		require.NoError(t, hit.Call(a, 1))
		n.tick(5)
		require.Len(t, n.clients[0].take(), 1)

		n.blocked.Store(false)
		for !n.conns[0].Sealed() {
			n.tick(1)
		}
		require.Equal(t, "open", n.conns[0].Stats().Sealed.State)
	})
}

// TestOneMessageFallsBackSoon: a single message moves to QUIC as soon as
// continuous play does, without waiting for a turn that other messages cause.
func TestOneMessageFallsBackSoon(t *testing.T) {
	overSealed(t, clean, true, func(n *sealedNet) {
		a := n.opened()
		n.blocked.Store(true)
		begin := time.Now()
		require.NoError(t, hit.Call(a, 1))
		for len(n.clients[0].take()) == 0 {
			n.tick(1)
		}
		t.Log(time.Since(begin))
		require.Less(t, time.Since(begin), 800*time.Millisecond)
	})
}

// TestBulkFallsBackLater: with bulk in flight a second must pass.
func TestBulkFallsBackLater(t *testing.T) {
	overSealed(t, clean, true, func(n *sealedNet) {
		n.opened()
		send(n.near, 5000)
		n.tick(10)
		n.blocked.Store(true)
		begin := time.Now()
		n.reach(n.near, sealed.Silent)
		t.Log(time.Since(begin))
		require.Greater(t, time.Since(begin), 900*time.Millisecond)
		require.Less(t, time.Since(begin), 1500*time.Millisecond)
	})
}

// TestEndsThatDisagree: sealed packets in one direction, or both, stop arriving
// repeatedly, so that sometimes one end considers its carrier silent and the other
// open. Calls in both directions arrive once and in order, and bulk continues.
func TestEndsThatDisagree(t *testing.T) {
	seed := testkit.Seed(t)
	random := rand.New(rand.NewPCG(seed, 4))
	path := clean
	path.Loss, path.Seed = 0.01, seed
	overSealed(t, path, true, func(n *sealedNet) {
		a := n.opened()
		mirror := n.mirror(0, a)
		n.server.take()
		send(n.near, 4000)
		made, apart := 0, 0
		for range testkit.Brief(15, 40) {
			for _, way := range []*atomic.Bool{&n.up, &n.down} {
				way.Store(random.IntN(3) == 0)
			}
			for range 10 + random.IntN(50) {
				require.NoError(t, hit.Call(a, made))
				require.NoError(t, shout.Call(mirror, "up"))
				made++
				n.tick(1)
				if n.ends[0].Sealed() != n.conns[0].Sealed() {
					apart++
				}
			}
		}
		n.up.Store(false)
		n.down.Store(false)
		n.arrive(n.far, 4000)
		n.tick(60)
		t.Logf("%d calls each way, the ends disagreed in %d ticks", made, apart)
		require.NotZero(t, apart)
		require.Len(t, n.clients[0].take(), made)
		require.Len(t, n.server.take(), made)
		require.NoError(t, n.ends[0].Err())
	})
}

// TestDeadPeersAreNoticed: if nothing arrives over either carrier, both ends have
// closed soon after IdleTimeout, whichever of them sends, and whether or not the
// client has a KeepAlive, because only clients ping while sealed packets are in use.
func TestDeadPeersAreNoticed(t *testing.T) {
	const idle = 4 * time.Second
	for _, keepAlive := range []time.Duration{-1, time.Second} {
		for _, plays := range []bool{true, false} {
			far := Config{Sealed: true, IdleTimeout: idle}
			near := Config{Sealed: true, IdleTimeout: idle, KeepAlive: keepAlive}
			overSealedWith(t, clean, far, near, func(n *sealedNet) {
				a := n.opened()
				for range 3 * int(idle.Seconds()) * 30 { // sealed traffic alone keeps QUIC from going idle
					require.NoError(t, hit.Call(a, 1))
					n.tick(1)
				}
				require.Empty(t, append(n.server.left, n.clients[0].left...))
				n.dark.Store(true)
				for range int((2 * idle).Seconds()) * 30 {
					if plays && a.Alive() {
						_ = hit.Call(a, 1)
					}
					n.tick(1)
				}
				require.Len(t, n.server.left, 1)
				require.Len(t, n.clients[0].left, 1)
				for _, err := range append(n.server.left, n.clients[0].left...) {
					var closed *CloseError
					require.ErrorAs(t, err, &closed)
					require.Equal(t, ConnectionTimeout, closed.Code)
				}
				n.dark.Store(false)
			})
		}
	}
}
