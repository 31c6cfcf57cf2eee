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
	require.EqualError(t, err, "stream: Install must be called once for each world, before its first connection: "+
		"call it right after rpc.NewWorld and share the Streams that it returns "+
		`(rpc: Bind: class "quiver.stream" is already bound in this world: call Bind once and keep the Binding that it returns)`)
	require.Nil(t, s)
}

func TestInstallComesBeforeTheFirstConnection(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		_, err := Install(n.server.world, Config{})
		require.ErrorContains(n, err, "Install must be called once for each world")
	})
}

// TestPeerOfAMistake: neither hangs, and both say what is wrong.
func TestPeerOfAMistake(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		conn := n.client.peer.Conn()
		require.PanicsWithValue(n, "stream: Peer(nil): connection is nil, as it is for an actor without an owner",
			func() { n.server.streams.Peer(nil) })
		require.PanicsWithValue(n, fmt.Sprintf("stream: Peer(%v): connection belongs to another world: "+
			"use the Streams that Install returned for that world", conn), func() { n.server.streams.Peer(conn) })
		require.Same(n, n.client.peer, n.client.streams.Peer(conn))
	})
}
