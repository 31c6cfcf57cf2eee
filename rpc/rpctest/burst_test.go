package rpctest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

// TestJoinsThroughBursts: a client joins even if packets are lost in runs. A run
// that is long enough loses all that a client can send within Config.HelloTimeout:
// that happens to one of some ten thousand, so one of these 150 may fail.
func TestJoinsThroughBursts(t *testing.T) {
	bursts, refused := rpctest.Bad, 0
	bursts.LossBurst, bursts.Rate, bursts.PktJitter = 3, 200_000, 10*time.Millisecond
	for range 10 {
		rpctest.Run(t, bursts, func(t *testing.T, net *rpctest.Network) {
			c, joined := newCamp(t, net, 0, rpc.Config{}), 0
			for range 15 {
				if _, err := net.Join(newBarracks(t, rpc.Config{}).World); err != nil {
					t.Log(err)
					refused++
				} else {
					joined++
				}
			}
			require.Len(t, c.conns, joined)
		})
	}
	require.LessOrEqual(t, refused, 1)
}
