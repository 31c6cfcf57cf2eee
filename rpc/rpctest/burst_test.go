package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestJoinsThroughBursts: who joins while packets are lost in a row is let in all the same.
func TestJoinsThroughBursts(t *testing.T) {
	bursts := rpctest.Bad
	bursts.LossBurst, bursts.Rate, bursts.PktJitter = 3, 200_000, 10*time.Millisecond
	for range 10 {
		rpctest.Run(t, bursts, func(t *testing.T, net *rpctest.Network) {
			c := newCamp(t, net, 0, rpc.Config{})
			for range 15 {
				_, err := net.Join(newBarracks(t, rpc.Config{}).World)
				require.NoError(t, err)
			}
			require.Len(t, c.conns, 15)
		})
	}
}
