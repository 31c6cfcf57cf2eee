package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/emulation"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// Classes whose states differ in priority alone.
var (
	crowd     = rpc.NewClass("Crowd")
	crowdSpot = rpc.NewState[marker](crowd)
	pawn      = rpc.NewClass("Pawn", rpc.UpdatePriority(3))
	pawnSpot  = rpc.NewState[marker](pawn)
)

type marker struct{ Count uint32 }

// 12.3c: where the rate does not take all, an actor of three times the priority
// is updated two to three times as often: claims count in whole ticks.
func TestUpdatePriority(t *testing.T) {
	rpctest.Run(t, emulation.Settings{PktLag: 20 * time.Millisecond}, func(t *testing.T, net *rpctest.Network) {
		server, err := rpc.NewWorld(rpc.Config{Rate: 20_000})
		require.NoError(t, err)
		client, err := rpc.NewWorld(rpc.Config{})
		require.NoError(t, err)
		updates := map[*rpc.Class]int{}
		bind := func(w *rpc.World, class *rpc.Class, spot *rpc.State[marker]) *rpc.Binding[*marker] {
			b := rpc.Bind(w, class, func(*rpc.Actor) *marker { return new(marker) })
			rpc.Replicate(b, spot, func(m *marker) *marker { return m })
			rpc.OnRep(b, spot, func(*marker, marker) { updates[class]++ })
			return b
		}
		var all []*marker
		for class, spot := range map[*rpc.Class]*rpc.State[marker]{crowd: crowdSpot, pawn: pawnSpot} {
			bind(client, class, spot)
			b := bind(server, class, spot)
			for range 200 {
				_, m, err := rpc.Spawn(b, nil, func(*marker) {}, rpc.AlwaysRelevant())
				require.NoError(t, err)
				all = append(all, m)
			}
		}
		net.Server(server)
		net.Client(client)
		net.Advance(10 * time.Second)
		clear(updates)
		for range 30 * 30 {
			for _, m := range all {
				m.Count++
			}
			net.Advance(time.Second / 30)
		}
		share := float64(updates[pawn]) / float64(updates[crowd])
		t.Logf("%d updates of pawns, %d of the crowd", updates[pawn], updates[crowd])
		require.Less(t, updates[pawn], 200*30*30*3/4, "the rate takes all: the test shows nothing")
		require.Greater(t, share, 1.6)
		require.Less(t, share, 3.5)
	})
}
