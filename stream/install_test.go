package stream

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

func TestInstallGoesOnceIntoAWorld(t *testing.T) {
	world, _ := newWorld(t, rpc.Config{}, Config{})
	s, err := Install(world, Config{})
	require.ErrorContains(t, err, "stream: Install goes once into a world, before its first connection: ")
	require.Nil(t, s)
}

func TestInstallComesBeforeTheFirstConnection(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		_, err := Install(n.server.world, Config{})
		require.ErrorContains(n, err, "Install goes once into a world")
	})
}
