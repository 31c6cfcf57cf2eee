package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/rpc"
)

// crate is an actor of the game, of which a world may have more than a connection has channels.
var crate = rpc.NewClass("Crate")

// crowd makes more AlwaysRelevant actors than a connection has channels, and returns them.
func (n *network) crowd() (crates []*rpc.Actor) {
	n.do(n.server.world, func() {
		for range n.setup.rpc.Bunch.MaxChannels + 1 {
			a, err := n.server.world.Spawn(crate, nil, rpc.AlwaysRelevant())
			require.NoError(n, err)
			crates = append(crates, a)
		}
	})
	return crates
}

func crowded(channels int) rpc.Config {
	return rpc.Config{Classes: []*rpc.Class{crate}, Bunch: bunch.Config{MaxChannels: channels}}
}

// TestStreamingComesBeforeTheCrowd: a client that joins when the actors of the
// game take all channels of its connection can stream.
func TestStreamingComesBeforeTheCrowd(t *testing.T) {
	overBackends(t, func(t *testing.T, via Backend) {
		inNetwork(t, setup{via: via, rpc: crowded(8)}, func(n *network) {
			n.crowd()
			n.connect()
			got := collect(n.client.streams)
			require.NoError(n, n.mustStart(n.server.peer, content(100_000)).Wait(n.ctx))
			require.NoError(n, (<-got).err)
			require.NoError(n, n.client.peer.conn.Err())
		})
	})
}

// TestNoChannelForAnotherLane: when the game's actors take all channels of a connection, a
// transfer continues with the lanes that it has, and gets more when there are channels again.
func TestNoChannelForAnotherLane(t *testing.T) {
	wide := link.Path{Cwnd: 8 << 20, MaxDatagram: 1243, SmoothedRTT: 50 * time.Millisecond}
	inNetwork(t, setup{path: wide, rpc: crowded(8)}, func(n *network) {
		crates := n.crowd()
		got := [2]<-chan received{collect(n.server.streams), collect(n.client.streams)}
		for i, from := range []*Peer{n.client.peer, n.server.peer} {
			require.NoError(n, n.mustStart(from, content(4<<20)).Wait(n.ctx))
			require.NoError(n, (<-got[i]).err)
			require.Equal(n, defaultLanes, n.server.peer.Stats().Lanes)
		}
		n.do(n.server.world, func() {
			for _, a := range crates {
				require.NoError(n, n.server.world.Destroy(a))
			}
		})
		time.Sleep(openingTime)
		require.NoError(n, n.mustStart(n.client.peer, content(4<<20)).Wait(n.ctx))
		require.Greater(n, n.server.peer.Stats().Lanes, defaultLanes)
	})
}

// TestFewerChannelsThanLanes: a backend that names more lanes than a connection
// has channels gets those that there are.
func TestFewerChannelsThanLanes(t *testing.T) {
	inNetwork(t, setup{via: Window{Lanes: maxLanes}, rpc: crowded(3)}, func(n *network) {
		got := collect(n.server.streams)
		require.NoError(n, n.mustStart(n.client.peer, content(1<<20)).Wait(n.ctx))
		require.NoError(n, (<-got).err)
		require.Equal(n, 2, n.server.peer.Stats().Lanes)
	})
}
