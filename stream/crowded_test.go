package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
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

// TestStreamingComesBeforeTheCrowd: a client that joins when the actors of the game take all channels of its connection can stream.
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
