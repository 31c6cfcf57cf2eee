package rpctest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/badnet"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
)

// TestEmulateOneLeavesTheUplink: the path of one client may become better or
// worse, and the rate of what the server sends to all is limited as before.
func TestEmulateOneLeavesTheUplink(t *testing.T) {
	h, bounded := newHub(), emulation.Settings{Rate: 1_000_000}
	alice, err := h.join(bounded, 1)
	require.NoError(t, err)
	bob, err := h.join(bounded, 2)
	require.NoError(t, err)
	now := time.Now()
	waits := func(l *link) bool {
		now = now.Add(time.Second)
		for range 10 {
			l.Send(now, make([]byte, 1000))
		}
		return l.Backlog(now) > 0
	}
	require.NoError(t, bob.setProfile(emulation.Settings{PktLag: 50 * time.Millisecond}, clientsOwn))
	require.True(t, waits(alice.down))
	require.True(t, waits(bob.down))
	require.False(t, waits(bob.up), "his own has no rate any more")
	require.Positive(t, bob.down.window.Load())

	require.NoError(t, alice.setProfile(emulation.Settings{}, wholePath))
	require.NoError(t, bob.setProfile(emulation.Settings{}, wholePath))
	require.False(t, waits(alice.down), "all paths are changed")
}

// TestIncomingLossHasNoSizes: the size limits of PktLoss do not apply to
// PktIncomingLoss, as in a socket's emulation.
func TestIncomingLossHasNoSizes(t *testing.T) {
	const packets = 2000
	seed := testkit.Seed(t)
	for _, row := range []struct {
		settings     emulation.Settings
		small, large int // that are lost, of packets
	}{
		{emulation.Settings{PktLoss: 50, PktLossMinSize: 1000}, 0, packets / 2},
		{emulation.Settings{PktIncomingLoss: 50, PktLossMinSize: 1000}, packets / 2, packets / 2},
		{emulation.Settings{PktIncomingLoss: 50, PktLoss: 50, PktLossMinSize: 1000}, packets / 2, packets * 3 / 4},
		{emulation.Settings{PktIncomingLoss: 50, PktLoss: 50, PktLossMinSize: 1000, LossBurst: 2}, packets / 2, packets * 3 / 4},
		{emulation.Settings{PktIncomingLoss: 50, PktLoss: 50}, packets * 3 / 4, packets * 3 / 4},
	} {
		row.settings.Seed = seed
		out, in, err := badnet.Links(row.settings)
		require.NoError(t, err)
		link, lost := netsim.NewLink(inSeries(out, in)), map[int]int{}
		for range packets {
			for _, size := range []int{100, 1200} {
				if link.Send(netsim.Epoch, make([]byte, size)) != netsim.Carried {
					lost[size]++
				}
			}
		}
		require.InDelta(t, row.small, lost[100], packets/10, "%+v", row.settings)
		require.InDelta(t, row.large, lost[1200], packets/10, "%+v", row.settings)
	}
}

// A network keeps neither clients that have come and gone nor their worlds, so a long test needs
// no more memory than a short one.
func TestNetworkForgetsWhatHasEnded(t *testing.T) {
	Run(t, Off, func(t *testing.T, n *Network) {
		newWorld := func() *rpc.World {
			w, err := rpc.NewWorld(rpc.Config{})
			require.NoError(t, err)
			return w
		}
		n.Server(newWorld())
		stays := n.Client(newWorld())
		for range 5 {
			w := newWorld()
			conn := n.Client(w)
			require.NoError(t, w.Close(t.Context(), 1024, ""))
			n.Advance(time.Second)
			n.Dark(conn, time.Second) // has no effect
		}
		crashes := newWorld()
		n.Client(crashes)
		n.Crash(crashes)
		n.Advance(lastTime + time.Minute)
		require.Len(t, n.clients, 1)
		require.Len(t, n.worlds, 1)
		require.Empty(t, n.closed)
		require.Empty(t, n.paused)
		require.NoError(t, stays.Err())
	})
}
