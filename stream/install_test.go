package stream

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

func TestInstallGoesOnceIntoAWorld(t *testing.T) {
	world, _ := newWorld(t, rpc.Config{}, Config{})
	s, err := Install(world, Config{})
	require.EqualError(t, err, "stream: Install goes once into a world, before its first connection: call it right after rpc.NewWorld, "+
		"and use the Streams that this call returned wherever the world's transfers are meant "+
		`(rpc: class "quiver.stream" is bound twice in one world)`)
	require.Nil(t, s)
}

func TestInstallComesBeforeTheFirstConnection(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		_, err := Install(n.server.world, Config{})
		require.ErrorContains(n, err, "Install goes once into a world")
	})
}

// TestPeerOfAMistake: neither hangs, and both say what is wrong.
func TestPeerOfAMistake(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		conn := n.client.peer.Conn()
		require.PanicsWithValue(n, "stream: Peer(nil): there is no connection; an actor that nobody owns has none",
			func() { n.server.streams.Peer(nil) })
		require.PanicsWithValue(n, fmt.Sprintf("stream: Peer(%v): the connection belongs to another world than these Streams; "+
			"ask those that Install returned for its world", conn), func() { n.server.streams.Peer(conn) })
		require.Same(n, n.client.peer, n.client.streams.Peer(conn))
	})
}
